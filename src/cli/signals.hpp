// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <functional>

namespace rondo::cli {

/// Ctrl-C and SIGTERM: the first asks the program to finish, the second ends it at once with
/// `exit_interrupted`. Calls back on the context's thread. Destroy it before the context.
class StopSignals {
public:
    StopSignals(asio::io_context& context, std::function<void()> on_first);
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    [[nodiscard]] bool stopping() const noexcept { return stopping_; }

    /// No longer keeps the context running; from now on these signals end the process by default.
    void disarm();

private:
    void wait();

    asio::signal_set signals_;
    std::function<void()> on_first_;
    bool stopping_ = false;
};

/// Calls back on the context's thread at a fixed interval. Destroy it before the context.
class Ticker {
public:
    Ticker(asio::io_context& context, std::chrono::milliseconds interval,
           std::function<void()> tick);
    Ticker(const Ticker&) = delete;
    Ticker& operator=(const Ticker&) = delete;

    /// No longer calls back, nor keeps the context running.
    void stop();

private:
    void wait();

    asio::steady_timer timer_;
    std::chrono::milliseconds interval_;
    std::function<void()> tick_;
    bool stopped_ = false;
};

}  // namespace rondo::cli
