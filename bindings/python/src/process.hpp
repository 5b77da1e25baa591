// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

namespace rondo::python {

/// Follows forks and the exit of the interpreter. Called once, with the GIL held.
void watch_process(unsigned long main_thread);

/// True on the thread that runs the handlers of signals.
[[nodiscard]] bool on_main_thread() noexcept;

/// From now on, threads other than the main one stay outside the interpreter for good once they are
/// outside it: Python would end them in the middle of C++ (before 3.14).
void begin_exit() noexcept;
[[nodiscard]] bool was_exit_begun() noexcept;

/// How many forks lie between the process that loaded the module and this one.
[[nodiscard]] unsigned fork_generation() noexcept;

[[noreturn]] void raise_use_after_fork(const char* what);

/// An object of the C++ library that belongs to the process which made it. A forked child has
/// neither its threads nor, perhaps, its locks in a usable state: there every use is refused, and
/// the object is left alone for ever.
template <typename T>
class OfProcess {
public:
    explicit OfProcess(T value) : value_{std::make_unique<T>(std::move(value))} {}
    OfProcess(OfProcess&&) noexcept = default;
    OfProcess& operator=(OfProcess&&) = delete;
    OfProcess(const OfProcess&) = delete;
    OfProcess& operator=(const OfProcess&) = delete;
    ~OfProcess() {
        if (is_foreign()) (void)value_.release();
    }

    [[nodiscard]] bool is_foreign() const noexcept { return made_in_ != fork_generation(); }

    /// The object. Raises RuntimeError in a forked child; `what` names the object there.
    [[nodiscard]] T& get(const char* what) const {
        if (is_foreign()) raise_use_after_fork(what);
        return *value_;
    }

    /// Gives the object up, to be destroyed by the caller; null in a forked child.
    [[nodiscard]] std::unique_ptr<T> take() noexcept {
        if (is_foreign()) (void)value_.release();
        return std::move(value_);
    }

private:
    std::unique_ptr<T> value_;
    unsigned made_in_ = fork_generation();
};

}  // namespace rondo::python
