// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.hpp"
#include <rondo/deadline.hpp>

#include <chrono>
#include <optional>

namespace rondo::python {

/// Lets other threads run Python while this one waits or copies. Nothing of Python may be touched
/// during its life.
class WithoutGil {
public:
    WithoutGil() : state_{PyEval_SaveThread()} {}
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;
    /// Until Python 3.13 a thread that comes back while the interpreter ends is unwound from here.
    ~WithoutGil() noexcept(false);  // NOLINT(bugprone-exception-escape): see above

private:
    PyThreadState* state_;
};

/// At the exit of the interpreter everything is closed, which a daemon thread could take for news:
/// it waits here instead, until the process is gone. Called with the GIL held.
void stay_here_at_exit();

template <typename Function>
auto without_gil(const Function& function) {
    const WithoutGil released;
    return function();
}

/// `timeout=`: seconds from now; none waits for ever, and a negative one does not wait at all.
/// Raises ValueError for a number that is none.
[[nodiscard]] Deadline deadline_of(const std::optional<double>& timeout);

/// A wait in turns, since a thread inside C++ cannot run the handlers of signals: only the main
/// thread does that, so it comes back every 50 ms, and others wait in one piece, but for
/// `first_turn`. The waits of the library lose nothing at a deadline, so neither does this.
class Turns {
public:
    using Duration = std::chrono::steady_clock::duration;

    /// `first_turn`: after which the caller wants to look at something, on any thread.
    explicit Turns(Deadline until, Duration first_turn = Duration::max()) noexcept
        : until_{until}, first_end_{Deadline{first_turn}} {}

    /// When the turn that begins now ends.
    [[nodiscard]] Deadline next() const noexcept;

    /// After a turn that ended without a result: false if the whole time is over. Raises what a
    /// handler of a signal raises, e.g. KeyboardInterrupt.
    [[nodiscard]] bool go_on();

    /// True once, in the first turn that begins after `first_turn` has passed.
    [[nodiscard]] bool first_turn_ended() noexcept;

private:
    Deadline until_;
    Deadline first_end_;
    bool told_ = false;
};

/// Runs handlers of signals on the main thread, for a wait that is asked whether to go on. With the
/// GIL released. False if a handler raised: the error is then set.
[[nodiscard]] bool signals_let_go_on();

}  // namespace rondo::python
