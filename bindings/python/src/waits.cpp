// SPDX-License-Identifier: Apache-2.0
#include "waits.hpp"

#include "process.hpp"

#include <algorithm>
#include <cmath>
#include <unistd.h>

namespace rondo::python {

WithoutGil::~WithoutGil() noexcept(false) {
    if (was_exit_begun() && !on_main_thread()) {
        for (;;) ::pause();
    }
    PyEval_RestoreThread(state_);
}

void stay_here_at_exit() {
    if (was_exit_begun() && !on_main_thread()) {
        const WithoutGil for_good;
    }
}

Deadline deadline_of(const std::optional<double>& timeout) {
    if (!timeout) return {};
    if (std::isnan(*timeout)) throw py::value_error{"timeout must be a number of seconds, got nan"};
    return std::chrono::duration<double>{std::max(*timeout, 0.0)};
}

Deadline Turns::next() const noexcept {
    constexpr std::chrono::milliseconds between_signals{50};
    auto end = until_.at();
    if (!told_) end = std::min(end, first_end_.at());
    if (on_main_thread()) end = std::min(end, Deadline::Clock::now() + between_signals);
    return end;
}

bool Turns::go_on() {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set{};
    return !until_.passed();
}

bool Turns::first_turn_ended() noexcept {
    if (told_ || !first_end_.passed()) return false;
    told_ = true;
    return true;
}

bool signals_let_go_on() {
    if (!on_main_thread()) return true;
    const py::gil_scoped_acquire with_gil;
    return PyErr_CheckSignals() == 0;
}

}  // namespace rondo::python
