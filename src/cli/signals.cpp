// SPDX-License-Identifier: Apache-2.0
#include "cli/signals.hpp"

#include "cli/exit_code.hpp"

#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace rondo::cli {

StopSignals::StopSignals(asio::io_context& context, std::function<void()> on_first)
    : signals_{context, SIGINT, SIGTERM}, on_first_{std::move(on_first)} {
    wait();
}

void StopSignals::wait() {
    signals_.async_wait([this](const std::error_code& error, int /*number*/) {
        if (error) return;
        // Not exit(): static objects and other threads may be in any state.
        if (stopping_) std::_Exit(exit_interrupted);
        stopping_ = true;
        wait();
        on_first_();
    });
}

void StopSignals::disarm() {
    std::error_code ignored;
    signals_.clear(ignored);
    signals_.cancel(ignored);
}

Ticker::Ticker(asio::io_context& context, std::chrono::milliseconds interval,
               std::function<void()> tick)
    : timer_{context, interval}, interval_{interval}, tick_{std::move(tick)} {
    wait();
}

void Ticker::wait() {
    timer_.async_wait([this](const std::error_code& error) {
        if (error || stopped_) return;
        tick_();
        timer_.expires_at(timer_.expiry() + interval_);
        wait();
    });
}

void Ticker::stop() {
    stopped_ = true;
    timer_.cancel();
}

}  // namespace rondo::cli
