// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_transport.hpp"

#include "spec/text.hpp"
#include "transport/socket_calls.hpp"
#include "wire/greeting.hpp"
#include <rondo/detail/log.hpp>

#include <asio/co_spawn.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <cerrno>
#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

namespace rondo {

std::string Endpoint::text() const {
    const bool v6 = address.find(':') != std::string::npos;
    return (v6 ? '[' + address + ']' : address) + ':' + std::to_string(port);
}

namespace detail {
namespace {

using asio::ip::tcp;

// By value: Asio's own category knows no std::errc, so a comparison with one is never true.
ListenError listen_error(const std::error_code& error, const Endpoint& at) {
    const std::string where = "cannot listen on " + at.text() + ": ";
    switch (error.value()) {
        case EADDRINUSE:
            return {ListenError::Code::in_use,
                    where + "another socket has this port; choose another, or 0 for a free one"};
        case EACCES:
            return {ListenError::Code::no_permission,
                    where + "no permission; ports below 1024 usually need a privilege"};
        case EADDRNOTAVAIL:
            return {ListenError::Code::not_available,
                    where + "this address belongs to no interface of this machine"};
        default:
            return {ListenError::Code::system, where + error.message()};
    }
}

// The one thing a connection may throw.
void report(std::exception_ptr thrown) noexcept {
    if (!thrown) return;
    try {
        std::rethrow_exception(std::move(thrown));
    } catch (const std::exception& error) {
        log_warning(std::string{"a connection was dropped: "} + error.what());
    } catch (...) {
        log_warning("a connection was dropped by an unknown exception");
    }
}

// Accepting can go on after these once something was closed or freed; trying at once would spin.
bool out_of_resources(const std::error_code& error) noexcept {
    return error.value() == EMFILE || error.value() == ENFILE || error.value() == ENOBUFS ||
           error.value() == ENOMEM;
}

}  // namespace

TcpTransport::TcpTransport(TcpOptions options, Endpoint& bound) noexcept
    : options_{std::move(options)}, bound_{bound} {}

TcpTransport::~TcpTransport() {
    stop();
}

tl::expected<void, ListenError> TcpTransport::start(Ingress ingress) {
    const std::shared_ptr<ServerCore>& core = IngressAccess::core(ingress);
    if (options_.backlog < 1) {
        return tl::unexpected{
            ListenError{ListenError::Code::invalid_option,
                        "backlog must be at least 1, got " + std::to_string(options_.backlog)}};
    }
    auto greeting = wire::encode_greeting(core->spec());
    if (!greeting) {
        return tl::unexpected{
            ListenError{ListenError::Code::spec_unsuited, greeting.error().message()}};
    }
    try {
        threads_.emplace(core->options().io_threads);
    } catch (const std::system_error& error) {
        return tl::unexpected{
            ListenError{ListenError::Code::system,
                        std::string{"cannot start the I/O threads: "} + error.what()}};
    }
    auto endpoint = bind();
    if (!endpoint) return tl::unexpected{std::move(endpoint).error()};
    bound_ = std::move(*endpoint);
    auto side_buffers =
        std::make_shared<SideBuffers>(options_.max_side_buffer_bytes, core->spec().payload_bytes());
    core->watch_side_buffers(side_buffers);
    shared_ = std::make_shared<const TcpShared>(
        TcpShared{core, wire::PayloadFramer{core->spec()}, std::move(*greeting),
                  std::move(side_buffers), options_.linger});
    asio::co_spawn(threads_->first().context, accept(),
                   [](std::exception_ptr thrown) { report(std::move(thrown)); });
    return {};
}

tl::expected<Endpoint, ListenError> TcpTransport::bind() {
    std::error_code error;
    const auto address = asio::ip::make_address(options_.address, error);
    // It reads up to a NUL and takes no notice of what follows.
    if (error || options_.address.find('\0') != std::string::npos) {
        return tl::unexpected{
            ListenError{ListenError::Code::bad_address,
                        "expected a numeric IPv4 or IPv6 address such as 127.0.0.1 or ::, got " +
                            in_quotes(options_.address)}};
    }
    const tcp::endpoint wanted{address, options_.port};
    const Endpoint asked{options_.address, options_.port};
    acceptor_.emplace(threads_->first().context);
    acceptor_->open(wanted.protocol(), error);
    // A server that was just stopped leaves connections behind that would block its port.
    if (!error) acceptor_->set_option(tcp::acceptor::reuse_address{true}, error);
    if (!error && address.is_v6()) {
        acceptor_->set_option(asio::ip::v6_only{!options_.dual_stack}, error);
    }
    if (!error) prepare_listener(acceptor_->native_handle());
    if (!error) acceptor_->bind(wanted, error);
    if (!error) acceptor_->listen(options_.backlog, error);
    if (error) return tl::unexpected{listen_error(error, asked)};
    const tcp::endpoint real = acceptor_->local_endpoint(error);
    if (error) return tl::unexpected{listen_error(error, asked)};
    return Endpoint{real.address().to_string(), real.port()};
}

asio::awaitable<void> TcpTransport::accept() {
    bool told = false;
    for (;;) {
        IoThread& io = threads_->next();
        std::error_code error;
        tcp::socket socket = co_await acceptor_->async_accept(
            io.context, asio::redirect_error(asio::use_awaitable, error));
        if (error == asio::error::operation_aborted || !acceptor_->is_open()) co_return;
        if (!error) {
            serve(std::move(socket), io);
            continue;
        }
        if (!out_of_resources(error)) continue;  // the peer gave up between connect and accept
        if (!std::exchange(told, true)) {
            log_warning("cannot accept more connections for now: " + error.message());
        }
        asio::steady_timer pause{threads_->first().context, std::chrono::milliseconds{100}};
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
}

void TcpTransport::serve(tcp::socket socket, IoThread& io) {
    asio::post(io.context, [&io, shared = shared_, socket = std::move(socket)]() mutable {
        auto connection = std::make_shared<TcpConnection>(std::move(socket), io, std::move(shared));
        asio::co_spawn(io.context, TcpConnection::run(std::move(connection)),
                       [](std::exception_ptr thrown) { report(std::move(thrown)); });
    });
}

void TcpTransport::stop() noexcept {
    if (!threads_) return;
    if (shared_ != nullptr) shared_->side_buffers->close();
    for (const auto& io : threads_->all()) {
        const bool first = io.get() == &threads_->first();
        asio::post(io->context, [this, first, &io = *io] {
            std::error_code ignored;
            if (first && acceptor_) acceptor_->close(ignored);
            io.leaving = true;  // for connections that were accepted, but have not begun
            for (TcpConnection* connection : io.connections) connection->leave();
        });
    }
    threads_->join();
    // The accept loop has ended with its acceptor, each connection with its own end.
    acceptor_.reset();
    threads_.reset();
}

}  // namespace detail
}  // namespace rondo
