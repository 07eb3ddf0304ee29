// gpumem_workspace.h for C++: loans that end with their object, sizes that fold at compile time (C++17).
//
//     auto loan = gpumem::borrow(handle->workspace, size1, size2, size3);
//     if (!loan)
//         return GPUMEM_WORKSPACE_MEMORY_ERROR;
//     std::tie(x, y, z) = loan; // or, with one size: float *x = loan;
#ifndef GPUMEM_WORKSPACE_HPP
#define GPUMEM_WORKSPACE_HPP

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "gpumem_workspace.h"

namespace gpumem {

struct workspace_destroyer {
    void operator()(gpumem_workspace *owned) const noexcept { gpumem_workspace_abandon(owned); }
};
// Owns a workspace. It is abandoned at the end; gpumem_workspace_destroy(made.release()) returns the error instead.
using workspace = std::unique_ptr<gpumem_workspace, workspace_destroyer>;

// Errors: those of gpumem_workspace_create(); *made is then as it was.
inline gpumem_workspace_status make_workspace(workspace &made, const gpumem_workspace_options *options = nullptr) {
    gpumem_workspace *created = nullptr;
    gpumem_workspace_status status = gpumem_workspace_create(options, &created);
    if (status == GPUMEM_WORKSPACE_SUCCESS)
        made.reset(created);
    return status;
}

// Bytes of all buffers, each rounded up to 64.
template <typename... Sizes> constexpr std::size_t workspace_bytes(Sizes... sizes) {
    static_assert(sizeof...(sizes) <= 255, "so that the sum cannot overflow");
    return (std::size_t{0} + ... + gpumem_workspace_rounded(static_cast<std::size_t>(sizes)));
}

// What gpumem_workspace_set_optimal() does, with a sum that folds.
template <typename... Sizes> gpumem_workspace_status set_optimal(gpumem_workspace *of, Sizes... sizes) {
    return gpumem_workspace_set_optimal_bytes(of, workspace_bytes(sizes...));
}

// The address of one lent buffer; nullptr for one of 0 bytes.
struct lent_buffer {
    void *address;
    template <typename T> operator T *() const noexcept { return static_cast<T *>(address); }
};

namespace detail {
template <typename Size> using buffer_of = lent_buffer;
template <typename Size> using size_of = std::size_t;
} // namespace detail

// A workspace, and the function that borrows from it: made from a pointer at the call, for texts of errors.
struct borrower {
    gpumem_workspace *workspace;
    const char *site;
    borrower(gpumem_workspace *from, const char *function = __builtin_FUNCTION()) : workspace(from), site(function) {}
};

// Memory lent to a function: it goes back when the object ends. False where nothing was lent.
template <typename... Sizes> class loan : public std::tuple<detail::buffer_of<Sizes>...> {
    using buffers = std::tuple<detail::buffer_of<Sizes>...>;

  public:
    loan(borrower by, Sizes... sizes)
        : loan(gpumem_workspace_borrow_bytes(by.workspace, workspace_bytes(sizes...), by.site), sizes...) {}
    loan(loan &&other) noexcept : buffers(other), lent_(std::exchange(other.lent_, nullptr)) {}
    loan &operator=(loan &&other) noexcept {
        gpumem_loan_return(std::exchange(lent_, std::exchange(other.lent_, nullptr)));
        static_cast<buffers &>(*this) = other;
        return *this;
    }
    ~loan() { gpumem_loan_return(lent_); }

    explicit operator bool() const noexcept { return lent_ != nullptr; }
    // With one size alone. Several buffers are assigned to std::tie(...).
    template <typename T, typename One = T, typename = std::enable_if_t<sizeof...(Sizes) == 1 && sizeof(One *)>>
    operator T *() const noexcept {
        return std::get<0>(static_cast<const buffers &>(*this));
    }

  private:
    loan(gpumem_loan *lent, Sizes... sizes)
        : buffers{lent_buffer{lent ? gpumem_loan_next(lent, sizes) : nullptr}...}, lent_(lent) {}

    gpumem_loan *lent_;
};

// The loan's type depends on the number of sizes alone, so that a second attempt can be assigned to the first.
template <typename... Sizes> [[nodiscard]] loan<detail::size_of<Sizes>...> borrow(borrower by, Sizes... sizes) {
    static_assert(sizeof...(sizes) > 0, "sizes of the buffers");
    return loan<detail::size_of<Sizes>...>(by, sizes...);
}

// Switches the pointer mode and restores the former mode, to which it compares equal, when it ends.
class saved_pointer_mode {
  public:
    saved_pointer_mode(gpumem_workspace *of, gpumem_pointer_mode mode)
        : saved_(gpumem_workspace_push_pointer_mode(of, mode)) {}
    saved_pointer_mode(const saved_pointer_mode &) = delete;
    saved_pointer_mode &operator=(const saved_pointer_mode &) = delete;
    ~saved_pointer_mode() { gpumem_workspace_pop_pointer_mode(&saved_); }
    operator gpumem_pointer_mode() const noexcept { return saved_.mode; }

  private:
    gpumem_saved_pointer_mode saved_;
};

} // namespace gpumem

#endif
