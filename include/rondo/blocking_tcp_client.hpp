// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/deadline.hpp>
#include <rondo/error.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>
#include <rondo/tcp_client.hpp>

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace rondo {

/// `TcpClient` for programs without coroutines: the same calls, and the calling thread waits.
///
/// All blocking clients of a process share one background thread, which reads acknowledgements and
/// writes what a call had to leave; it starts with the first client and is joined when the last one
/// is gone. Ownership and thread-safety: as `TcpClient`. Not usable in a forked child.
class BlockingTcpClient {
public:
    /// Asked about every 50 ms by a thread that waits; false cancels the call. For what such a
    /// thread has to look after meanwhile, e.g. the signals of an interpreter.
    using GoOn = std::function<bool()>;

    [[nodiscard]] static tl::expected<BlockingTcpClient, ConnectError> connect(
        std::string_view host, std::uint16_t port, SampleSpec spec, TcpClientOptions options = {},
        const GoOn& go_on = {});

    BlockingTcpClient(BlockingTcpClient&&) noexcept;
    BlockingTcpClient& operator=(BlockingTcpClient&&) noexcept;
    BlockingTcpClient(const BlockingTcpClient&) = delete;
    BlockingTcpClient& operator=(const BlockingTcpClient&) = delete;
    ~BlockingTcpClient();

    [[nodiscard]] const SampleSpec& spec() const noexcept;

    [[nodiscard]] tl::expected<void, SendError> send(const Sample& sample, Deadline deadline = {});
    [[nodiscard]] tl::expected<void, SendError> send(std::span<const ArrayBytes> arrays,
                                                     Deadline deadline = {});
    [[nodiscard]] tl::expected<void, SendError> send_many(std::span<const ArrayBytes> stacked,
                                                          std::size_t count,
                                                          Deadline deadline = {});
    [[nodiscard]] tl::expected<bool, SendError> try_send(const Sample& sample);
    [[nodiscard]] tl::expected<bool, SendError> try_send(std::span<const ArrayBytes> arrays);
    [[nodiscard]] tl::expected<void, SendError> wait(Deadline deadline = {});

    /// See `TcpClient::close`.
    std::uint64_t close(Deadline deadline = std::chrono::seconds{5}, const GoOn& go_on = {});

    [[nodiscard]] std::uint64_t in_flight() const noexcept;
    [[nodiscard]] bool was_open() const noexcept;

private:
    class IoThread;
    BlockingTcpClient(std::shared_ptr<IoThread> thread,
                      std::shared_ptr<detail::ClientCore> core) noexcept;
    [[nodiscard]] bool is_forked() const noexcept;
    void drop() noexcept;

    std::shared_ptr<IoThread> thread_;
    std::shared_ptr<detail::ClientCore> core_;
};

}  // namespace rondo
