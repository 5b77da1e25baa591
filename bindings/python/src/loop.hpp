// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.hpp"

#include <asio/execution.hpp>
#include <asio/execution_context.hpp>
#include <asio/io_context.hpp>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rondo::python {

/// The thread on which the sockets of asynchronous clients and the timers of all asynchronous waits
/// live: one for the process, started at its first use. Never destroyed, so nothing that refers to
/// it can outlive it.
[[nodiscard]] asio::io_context& background();

/// Joins that thread, at the exit of the interpreter.
void stop_background();

/// What an event loop of asyncio still has to run. Filled from any thread, run on the loop's: an
/// eventfd, which the loop watches, wakes it.
class LoopQueue {
public:
    struct Task {
        Task() = default;
        Task(const Task&) = delete;
        Task& operator=(const Task&) = delete;
        virtual ~Task() = default;
        virtual void run() = 0;
    };

    LoopQueue();
    LoopQueue(const LoopQueue&) = delete;
    LoopQueue& operator=(const LoopQueue&) = delete;
    ~LoopQueue();

    [[nodiscard]] int fd() const noexcept { return fd_; }

    /// Runs the task soon; if the queue was closed, destroys it unrun, on another thread.
    void push(std::unique_ptr<Task> task);

    /// On the loop's thread, with the GIL held: runs what is there.
    void run();

    /// The loop will never run again: destroys what is left, now and later, unrun. Permits that
    /// such tasks carry go to others.
    void close();
    [[nodiscard]] bool was_closed();

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Task>> tasks_;
    bool closed_ = false;
    int fd_;
};

/// Runs functions on an event loop: an executor for Asio.
class LoopExecutor {
public:
    explicit LoopExecutor(std::shared_ptr<LoopQueue> queue) noexcept : queue_{std::move(queue)} {}

    /// Where services such as timers live; the functions themselves run on the loop.
    [[nodiscard]] asio::execution_context& query(
        asio::execution::context_t /*property*/) const noexcept {
        return background();
    }
    static constexpr asio::execution::blocking_t::never_t query(
        asio::execution::blocking_t /*property*/) noexcept {
        return asio::execution::blocking.never;
    }

    template <typename Function>
    void execute(Function function) const {
        struct Once final : LoopQueue::Task {
            explicit Once(Function once) : function{std::move(once)} {}
            void run() override { std::move(function)(); }
            Function function;
        };
        queue_->push(std::make_unique<Once>(std::move(function)));
    }

    friend bool operator==(const LoopExecutor&, const LoopExecutor&) noexcept = default;

private:
    std::shared_ptr<LoopQueue> queue_;
};

/// An event loop's queue as Python holds it: the loop watches `fileno()` and calls `run()`.
class LoopBridge {
public:
    LoopBridge() : queue_{std::make_shared<LoopQueue>()} {}
    LoopBridge(const LoopBridge&) = delete;
    LoopBridge& operator=(const LoopBridge&) = delete;
    ~LoopBridge() { queue_->close(); }

    [[nodiscard]] int fileno() const noexcept { return queue_->fd(); }
    void run() const { queue_->run(); }
    void close() const { queue_->close(); }
    [[nodiscard]] const std::shared_ptr<LoopQueue>& queue() const noexcept { return queue_; }

private:
    std::shared_ptr<LoopQueue> queue_;
};

void add_loop(py::module_& module);

}  // namespace rondo::python
