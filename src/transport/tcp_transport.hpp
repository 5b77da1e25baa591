// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transport/io_threads.hpp"
#include "transport/tcp_connection.hpp"
#include <rondo/tcp_options.hpp>
#include <rondo/transport.hpp>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>

#include <memory>
#include <optional>

namespace rondo::detail {

/// The built-in transport: accepts TCP connections and serves them on threads of its own.
class TcpTransport final : public Transport {
public:
    /// `start` writes to `bound` where it really listens.
    TcpTransport(TcpOptions options, Endpoint& bound) noexcept;
    ~TcpTransport() override;

    tl::expected<void, ListenError> start(Ingress ingress) override;
    void stop() noexcept override;

private:
    [[nodiscard]] tl::expected<Endpoint, ListenError> bind();
    asio::awaitable<void> accept();
    void serve(asio::ip::tcp::socket socket, IoThread& io);

    const TcpOptions options_;
    Endpoint& bound_;  // the caller's, and gone once `start` has returned
    std::shared_ptr<const TcpShared> shared_;
    std::optional<IoThreads> threads_;
    std::optional<asio::ip::tcp::acceptor> acceptor_;  // on the first thread
};

}  // namespace rondo::detail
