// Loans in C++: they end with their object, convert to pointers, and are assigned to std::tie. The program prints what
// is wrong and ends with 1.
#include "gpumem_workspace.hpp"

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <cuda.h>

#include "../../said.h"

static int wrong;
#define CHECK(holds) ((holds) ? void() : (void)(wrong++, std::printf("line %d: %s\n", __LINE__, #holds)))

static_assert(gpumem::workspace_bytes(1024, 256, 512) == 1792);
static_assert(gpumem::workspace_bytes(1, 64, 65) == 256);
static_assert(gpumem::workspace_bytes(SIZE_MAX, SIZE_MAX) == SIZE_MAX / 256 * 2 + 2);
using one_buffer = gpumem::loan<std::size_t>;
using two_buffers = gpumem::loan<std::size_t, std::size_t>;
static_assert(std::is_convertible_v<one_buffer, void *> && std::is_convertible_v<one_buffer, float *>);
static_assert(!std::is_convertible_v<two_buffers, void *>);
static_assert(!std::is_copy_constructible_v<one_buffer> && !std::is_copy_assignable_v<one_buffer>);
static_assert(!std::is_convertible_v<one_buffer, bool> && std::is_constructible_v<bool, one_buffer>);

// What a call logs.
template <typename Call> static bool logs(const char *words, Call call) {
    char text[500];
    struct said said = said_begin();
    call();
    said_end(said, text, sizeof text);
    return std::strstr(text, words) != nullptr;
}

// It cannot throw, and must not end in silence.
static void a_workspace_that_ends_with_a_loan() {
    gpumem::workspace owner;
    CHECK(gpumem::make_workspace(owner) == GPUMEM_WORKSPACE_SUCCESS);
    gpumem_workspace *workspace = owner.get();
    {
        auto loan = gpumem::borrow(workspace, 64);
        CHECK(loan && logs("a loan of 64 bytes is alive", [&] { owner.reset(); }));
    }
    CHECK(gpumem_workspace_destroy(workspace) == GPUMEM_WORKSPACE_SUCCESS);
}

static bool is_free(gpumem_workspace *workspace) {
    auto loan = gpumem::borrow(workspace, 64);
    return static_cast<bool>(loan);
}

// The optimal size, else the smaller one, as in the paper's example.
static gpumem_workspace_status large_or_small(gpumem_workspace *workspace, int large, std::size_t small) {
    gpumem_workspace_status status = GPUMEM_WORKSPACE_SUCCESS;
    if (gpumem_workspace_is_query(workspace))
        return gpumem::set_optimal(workspace, large);
    auto loan = gpumem::borrow(workspace, large);
    if (!loan) {
        loan = gpumem::borrow(workspace, small);
        if (!loan)
            return GPUMEM_WORKSPACE_MEMORY_ERROR;
        status = GPUMEM_WORKSPACE_PERF_DEGRADED;
    }
    float *memory = loan;
    CHECK(memory);
    return status;
}

static void loans(gpumem_workspace *workspace) {
    {
        auto loan = gpumem::borrow(workspace, 100, 0, 256);
        CHECK(loan);
        float *one = nullptr;
        void *none = &one;
        const int *two = nullptr;
        std::tie(one, none, two) = loan;
        CHECK(one && !none && reinterpret_cast<const char *>(two) - reinterpret_cast<char *>(one) == 128);
        CHECK(!is_free(workspace));
        auto moved = std::move(loan);
        CHECK(moved && !loan && !is_free(workspace));
    }
    CHECK(is_free(workspace));
    try {
        auto loan = gpumem::borrow(workspace, 1);
        throw std::runtime_error("");
    } catch (const std::runtime_error &) {
    }
    CHECK(is_free(workspace));
    auto loan = gpumem::borrow(workspace, 1);
    CHECK(gpumem_workspace_set_size(workspace, 64) != GPUMEM_WORKSPACE_SUCCESS &&
          std::strstr(gpumem_last_error(), "borrowed at loans"));
    loan = gpumem::borrow(workspace, 2); // fails while the first is alive; then both are gone
    CHECK(!loan && is_free(workspace));
}

static gpumem_pointer_mode mode_inside(gpumem_workspace *workspace) {
    gpumem::saved_pointer_mode saved(workspace, GPUMEM_POINTER_MODE_DEVICE);
    CHECK(saved == GPUMEM_POINTER_MODE_HOST);
    return gpumem_workspace_pointer_mode(workspace);
}

int main() {
    CUcontext context;
    CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    gpumem::workspace workspace;
    CHECK(gpumem::make_workspace(workspace) == GPUMEM_WORKSPACE_SUCCESS);
    loans(workspace.get());
    a_workspace_that_ends_with_a_loan();

    std::size_t answer = 0;
    CHECK(gpumem_workspace_start_query(workspace.get()) == GPUMEM_WORKSPACE_SUCCESS);
    CHECK(large_or_small(workspace.get(), 3000, 10) == GPUMEM_WORKSPACE_SIZE_INCREASED);
    CHECK(gpumem_workspace_stop_query(workspace.get(), &answer) == GPUMEM_WORKSPACE_SUCCESS && answer == 3008);
    CHECK(gpumem_workspace_set_size(workspace.get(), answer) == GPUMEM_WORKSPACE_SUCCESS);
    CHECK(large_or_small(workspace.get(), 3000, 10) == GPUMEM_WORKSPACE_SUCCESS);
    CHECK(large_or_small(workspace.get(), 4000, 10) == GPUMEM_WORKSPACE_PERF_DEGRADED);
    CHECK(large_or_small(workspace.get(), 4000, 4000) == GPUMEM_WORKSPACE_MEMORY_ERROR);

    CHECK(mode_inside(workspace.get()) == GPUMEM_POINTER_MODE_DEVICE);
    CHECK(gpumem_workspace_pointer_mode(workspace.get()) == GPUMEM_POINTER_MODE_HOST);
    return wrong ? 1 : 0;
}
