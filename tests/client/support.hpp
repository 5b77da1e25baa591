// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/catch.hpp"
#include "support/scripted_peer.hpp"
#include <rondo/log.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>
#include <rondo/tcp_client.hpp>

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::test {

inline SampleSpec spec_of(std::string_view text) {
    return *SampleSpec::parse(text);
}

/// A spec whose payload is `bytes`, in two arrays if it can be.
inline SampleSpec spec_of_bytes(std::uint64_t bytes) {
    if (bytes < 2) return spec_of("x:uint8[" + std::to_string(bytes) + "]");
    return spec_of("x:uint8[1],y:uint8[" + std::to_string(bytes - 1) + "]");
}

/// A sample whose bytes depend on `seed` and on their place.
inline Sample filled(const SampleSpec& spec, std::uint32_t seed) {
    Sample sample{spec};
    std::uint32_t state = seed * 2'654'435'761U + 1;
    for (std::size_t i = 0; i < spec.size(); ++i) {
        for (std::byte& byte : sample.array<std::byte>(i)) {
            state = state * 1'664'525U + 1'013'904'223U;
            byte = static_cast<std::byte>(state >> 24U);
        }
    }
    return sample;
}

/// What the sample looks like on the wire.
inline std::vector<std::byte> payload_of(const Sample& sample) {
    std::vector<std::byte> all;
    for (const ArrayBytes array : sample.arrays())
        all.insert(all.end(), array.begin(), array.end());
    return all;
}

/// A coroutine that was started, and its result once it has one.
template <typename T>
class Task {
public:
    [[nodiscard]] bool done() const { return state_->result.has_value(); }
    [[nodiscard]] T& result() const { return state_->result.value(); }

    /// Asks it to stop. On the loop's thread.
    void cancel() const { state_->signal.emit(asio::cancellation_type::terminal); }

private:
    friend class Loop;
    struct State {
        std::optional<T> result;
        asio::cancellation_signal signal;
    };
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// An io_context that runs only when the test says so, on the test's thread.
class Loop {
public:
    [[nodiscard]] asio::io_context& context() { return *context_; }

    /// Starts a coroutine and runs what is ready.
    template <typename T>
    Task<T> spawn(asio::awaitable<T> work) {
        Task<T> task;
        auto storing = store(std::move(work), task.state_);
        asio::co_spawn(*context_, std::move(storing),
                       asio::bind_cancellation_slot(task.state_->signal.slot(),
                                                    [](const std::exception_ptr& thrown) {
                                                        if (thrown) std::rethrow_exception(thrown);
                                                    }));
        poll();
        return task;
    }

    void poll() {
        context_->restart();
        context_->poll();
    }

    /// Runs until `done()`; throws if nothing happens for a minute.
    template <typename Predicate>
    void run_until(const Predicate& done) {
        while (!done()) {
            context_->restart();
            if (context_->run_one_for(std::chrono::minutes{1}) == 0 && !done()) {
                throw std::runtime_error{"the loop is waiting for something that never comes"};
            }
        }
    }

    template <typename T>
    T& await(const Task<T>& task) {
        run_until([&] { return task.done(); });
        return task.result();
    }

    template <typename T>
    T run(asio::awaitable<T> work) {
        const Task<T> task = spawn(std::move(work));
        return std::move(await(task));
    }

    void destroy() { context_.reset(); }

private:
    template <typename T, typename State>
    static asio::awaitable<void> store(asio::awaitable<T> work, std::shared_ptr<State> state) {
        state->result.emplace(co_await std::move(work));
    }

    std::unique_ptr<asio::io_context> context_ = std::make_unique<asio::io_context>(1);
};

/// A client of the peer, connected.
inline TcpClient connected(Loop& loop, ScriptedPeer& peer, const SampleSpec& spec,
                           TcpClientOptions options = {}) {
    const auto task = loop.spawn(TcpClient::connect("127.0.0.1", peer.port(), spec, options));
    peer.accept();
    peer.greet(spec);
    auto& client = loop.await(task);
    if (!client) throw std::runtime_error{client.error().message()};
    return std::move(*client);
}

/// The lines logged while it lives.
class LogCapture {
public:
    LogCapture() {
        set_log_sink([lines = lines_](LogLevel /*level*/, std::string_view line) {
            const std::lock_guard lock{lines->mutex};
            lines->all.emplace_back(line);
        });
    }
    LogCapture(const LogCapture&) = delete;
    LogCapture& operator=(const LogCapture&) = delete;
    ~LogCapture() { set_log_sink({}); }

    [[nodiscard]] std::vector<std::string> lines() const {
        const std::lock_guard lock{lines_->mutex};
        return lines_->all;
    }

private:
    struct Lines {
        std::mutex mutex;
        std::vector<std::string> all;
    };
    std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

}  // namespace rondo::test
