// The exceptions of gpumem's C++ headers. Every failure throws gpumem::error, which carries the status. It is also a
// std::bad_alloc when memory is out, and a std::runtime_error otherwise.
#ifndef GPUMEM_ERROR_HPP
#define GPUMEM_ERROR_HPP

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "gpumem.h"

namespace gpumem {

// What every failure throws. status() says which, text() and what() name the bytes.
class error {
  public:
    error(gpumem_status status, const char *text) : status_(status), text_(std::make_shared<const std::string>(text)) {}
    virtual ~error() = default;
    gpumem_status status() const noexcept { return status_; }
    const char *text() const noexcept { return text_->c_str(); }
    virtual const char *what() const noexcept { return text(); }

  private:
    gpumem_status status_;
    std::shared_ptr<const std::string> text_; // copies of an exception must not throw
};

// The error as it is thrown: to programs that do not know gpumem it is an exception of the standard library.
class bad_alloc final : public error, public std::bad_alloc {
  public:
    using error::error;
    const char *what() const noexcept override { return text(); }
};

class runtime_error final : public error, public std::runtime_error {
  public:
    runtime_error(gpumem_status status, const char *text) : error(status, text), std::runtime_error(text) {}
    const char *what() const noexcept override { return text(); }
};

inline void check(gpumem_status status) {
    if (status == GPUMEM_OUT_OF_MEMORY)
        throw bad_alloc(status, gpumem_last_error());
    if (status != GPUMEM_OK)
        throw runtime_error(status, gpumem_last_error());
}

} // namespace gpumem

#endif
