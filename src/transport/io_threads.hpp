// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_set>
#include <vector>

namespace rondo::detail {

class TcpConnection;

/// One thread that serves connections, and what they share because only one of them runs at a time.
struct IoThread {
    explicit IoThread(std::size_t thread_index) : index{thread_index} {}

    const std::size_t index;
    asio::io_context context{1};
    asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};

    /// Small samples are received here and split. Large enough that one `recv` takes much, small
    /// enough to stay in the cache.
    static constexpr std::size_t buffer_bytes = std::size_t{256} << 10;
    const std::unique_ptr<std::byte[]> buffer =  // NOLINT(modernize-avoid-c-arrays)
        std::make_unique<std::byte[]>(buffer_bytes);

    // Touched only on this thread.
    std::unordered_set<TcpConnection*> connections;
    bool leaving = false;

    std::thread thread;
};

/// The threads of one transport. Owner of the threads: `join` (or the destructor) joins them.
class IoThreads {
public:
    /// `count` 0: half of the usable cores, at least 1, at most 4. Throws std::system_error if the
    /// system has no thread or no descriptor to give.
    explicit IoThreads(std::uint32_t count);
    IoThreads(const IoThreads&) = delete;
    IoThreads& operator=(const IoThreads&) = delete;
    ~IoThreads();

    [[nodiscard]] IoThread& first() noexcept { return *threads_.front(); }
    [[nodiscard]] const std::vector<std::unique_ptr<IoThread>>& all() noexcept { return threads_; }

    /// The thread whose turn it is to get a connection.
    [[nodiscard]] IoThread& next() noexcept;

    /// Lets every thread return once it has nothing left to do, and waits for that. Idempotent.
    void join() noexcept;

private:
    std::vector<std::unique_ptr<IoThread>> threads_;
    std::size_t turn_ = 0;
};

}  // namespace rondo::detail
