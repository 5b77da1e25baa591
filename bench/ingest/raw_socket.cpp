// SPDX-License-Identifier: Apache-2.0
#include "ingest/raw_socket.hpp"

#include "client/socket_io.hpp"
#include "transport/socket_calls.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <system_error>

namespace rondo::bench {
namespace {

sockaddr_in loopback(std::uint16_t port) noexcept {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

}  // namespace

int checked(int result, const char* what) {
    if (result < 0) throw std::system_error{errno, std::system_category(), what};
    return result;
}

Listener listen_raw() {
    const int socket = checked(::socket(AF_INET, SOCK_STREAM, 0), "socket");
    detail::prepare_listener(socket);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    checked(::bind(socket, generic, size), "bind");
    checked(::listen(socket, 1'024), "listen");
    checked(::getsockname(socket, generic, &size), "getsockname");
    return {socket, ntohs(address.sin_port)};
}

int connect_raw(std::uint16_t port) {
    const int socket = checked(::socket(AF_INET, SOCK_STREAM, 0), "socket");
    const sockaddr_in address = loopback(port);
    checked(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address),
            "connect");
    const int on = 1;
    checked(::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
    detail::limit_unsent(socket);
    detail::limit_send_buffer(socket);
    return socket;
}

}  // namespace rondo::bench
