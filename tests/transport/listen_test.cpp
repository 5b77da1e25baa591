// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/raw_peer.hpp"
#include "transport/harness.hpp"
#include <rondo/server.hpp>

#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace rondo;
using namespace rondo::test;
using namespace std::string_view_literals;

namespace {

const SampleSpec& small_spec() {
    static const SampleSpec spec = spec_of("obs:float32[4],reward:float32[]");
    return spec;
}

Server small_server(std::uint32_t io_threads = 1) {
    return Server::create(small_spec(),
                          {.batch_size = 1, .num_buffers = 4, .io_threads = io_threads})
        .value();
}

/// One sample goes through this endpoint.
void pass_one(Server& server, const Endpoint& endpoint, std::uint32_t seq) {
    const Payloads payloads{small_spec().payload_bytes()};
    RawPeer peer{endpoint};
    (void)peer.read(29);  // docs/echo-1-on-the-wire.md
    peer.write(payloads.one(0, seq));
    peer.read_acks(1);
    const auto batch = server.blocking_sample({.deadline = patience});
    REQUIRE(batch.has_value());
    const auto obs = batch->array<std::byte>(0);
    const auto sent = payloads.one(0, seq);
    CHECK(std::vector(obs.begin(), obs.end()) == std::vector(sent.begin(), sent.begin() + 16));
}

ListenError refused(const TcpOptions& options) {
    Server server = small_server();
    const auto where = server.listen(options);
    REQUIRE_FALSE(where.has_value());
    return where.error();
}

int first_unprivileged_port() {
    std::ifstream file{"/proc/sys/net/ipv4/ip_unprivileged_port_start"};
    int port = 1'024;
    file >> port;
    return port;
}

/// Sockets that a program started now would inherit. Looks at /proc only: the descriptors are the
/// I/O threads', who may close them meanwhile.
std::size_t count_plain_sockets() {
    std::size_t plain = 0;
    for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
        std::error_code closed;
        const auto target = std::filesystem::read_symlink(entry.path(), closed).string();
        if (closed || target.rfind("socket:", 0) != 0) continue;
        std::ifstream info{"/proc/self/fdinfo/" + entry.path().filename().string()};
        std::string word;
        while (info >> word && word != "flags:") {
        }
        unsigned flags = O_CLOEXEC;  // of one that is closed by now
        info >> std::oct >> flags;
        plain += (flags & O_CLOEXEC) == 0 ? 1 : 0;
    }
    return plain;
}

}  // namespace

TEST_CASE("Tcp: port 0 gives the real port, where peers are served") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    Server server = small_server(io_threads);
    const auto where = server.listen();
    REQUIRE(where.has_value());
    CHECK(where->address == "127.0.0.1");
    CHECK(where->port > 0);
    CHECK(where->text() == "127.0.0.1:" + std::to_string(where->port));
    for (std::uint32_t i = 0; i < 6; ++i) pass_one(server, *where, i);
}

TEST_CASE("Tcp: the greeting is echo/1's, byte for byte") {
    const Listening listening{small_spec(), {.batch_size = 1}};
    RawPeer peer{listening.endpoint};
    const std::string expected{"ECHO\x01\x02\0\0\0\x04\0\0\0\x01\0\0\0\x04\0\0\0\x04\0\0\0\0\0\0\0",
                               29};
    const Bytes greeting = peer.read(29);
    CHECK(std::string(reinterpret_cast<const char*>(greeting.data()), 29) == expected);
}

TEST_CASE("Tcp: listens on an IPv6 address") {
    if (!has_ipv6()) RONDO_SKIP("this machine has no IPv6 loopback");
    const auto io_threads = GENERATE(1U, 2U, 4U);
    Server server = small_server(io_threads);
    const auto where = server.listen({.address = "::1"});
    REQUIRE(where.has_value());
    CHECK(where->text() == "[::1]:" + std::to_string(where->port));
    pass_one(server, *where, 0);
}

TEST_CASE("Tcp: the dual-stack wildcard takes IPv6 and IPv4 peers") {
    if (!has_ipv6()) RONDO_SKIP("this machine has no IPv6 loopback");
    const auto io_threads = GENERATE(1U, 2U, 4U);
    Server server = small_server(io_threads);
    const auto where = server.listen({.address = "::"});
    REQUIRE(where.has_value());
    pass_one(server, {"127.0.0.1", where->port}, 0);
    pass_one(server, {"::1", where->port}, 1);
}

TEST_CASE("Tcp: without dual_stack the IPv6 wildcard takes no IPv4 peer") {
    if (!has_ipv6()) RONDO_SKIP("this machine has no IPv6 loopback");
    Server server = small_server();
    const auto where = server.listen({.address = "::", .dual_stack = false});
    REQUIRE(where.has_value());
    pass_one(server, {"::1", where->port}, 0);
    CHECK_THROWS_AS((RawPeer{{"127.0.0.1", where->port}}), std::system_error);
}

TEST_CASE("Tcp: a port in use is refused with a sentence, and the server goes on") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    Server server = small_server(io_threads);
    const auto first = server.listen();
    REQUIRE(first.has_value());
    const auto second = server.listen({.port = first->port});
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code == ListenError::Code::in_use);
    CHECK_THAT(second.error().message(), contains(first->text()));
    pass_one(server, *first, 0);
}

TEST_CASE("Tcp: what is no numeric address is refused with what was given") {
    for (const auto address : {""sv, "localhost"sv, "300.1.1.1"sv, "127.0.0.1:80"sv, "::1::"sv,
                               "[::1]"sv, "127.0.0.1\0.example"sv}) {
        const ListenError error = refused({.address = std::string{address}});
        CHECK(error.code == ListenError::Code::bad_address);
        const bool has_nul = address.find('\0') != std::string_view::npos;
        const std::string shown = has_nul ? R"(127.0.0.1\x00.example)" : std::string{address};
        CHECK_THAT(error.message(), contains('"' + shown + '"'));
    }
}

TEST_CASE("Tcp: an address of no interface is refused") {
    const ListenError error = refused({.address = "192.0.2.1"});  // reserved for documentation
    CHECK(error.code == ListenError::Code::not_available);
    CHECK_THAT(error.message(), contains("192.0.2.1"));
}

TEST_CASE("Tcp: a port that needs a privilege is refused without it") {
    if (first_unprivileged_port() <= 1) RONDO_SKIP("every port is unprivileged on this machine");
    ChildProcess child{[] {
        constexpr uid_t nobody = 65'534;
        if (::getuid() == 0 && ::setuid(nobody) != 0) return 1;
        Server server = small_server();
        const auto where = server.listen({.port = 1});
        if (where) return 2;
        return where.error().code == ListenError::Code::no_permission ? 0 : 3;
    }};
    CHECK(child.wait() == 0);
}

TEST_CASE("Tcp: a spec that echo/1 cannot carry is refused") {
    for (const char* text : {"a:float32[0]", "a:uint8[4294967296,0],b:uint8[]"}) {
        Server server = Server::create(spec_of(text), {.batch_size = 1}).value();
        const auto where = server.listen();
        REQUIRE_FALSE(where.has_value());
        CHECK(where.error().code == ListenError::Code::spec_unsuited);
        CHECK_FALSE(where.error().message().empty());
    }
}

TEST_CASE("Tcp: a backlog below 1 is refused, and 1 suffices") {
    CHECK(refused({.backlog = 0}).code == ListenError::Code::invalid_option);
    CHECK(refused({.backlog = -1}).code == ListenError::Code::invalid_option);
    Server server = small_server();
    const auto where = server.listen({.backlog = 1});
    REQUIRE(where.has_value());
    pass_one(server, *where, 0);
}

TEST_CASE("Tcp: several listeners fill one ring") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    Server server = small_server(io_threads);
    std::vector<Endpoint> endpoints;
    for (int i = 0; i < 3; ++i) endpoints.push_back(server.listen().value());
    for (std::uint32_t i = 0; i < 9; ++i) pass_one(server, endpoints[i % 3], i);
    server.close();
    for (const Endpoint& endpoint : endpoints)
        CHECK_THROWS_AS(RawPeer{endpoint}, std::system_error);
}

TEST_CASE("Tcp: a closed server listens no more") {
    Server server = small_server();
    server.close();
    const auto where = server.listen();
    REQUIRE_FALSE(where.has_value());
    CHECK(where.error().code == ListenError::Code::closed);
}

TEST_CASE("Tcp: a server is restarted on its port at once") {
    const auto io_threads = GENERATE(1U, 2U, 4U);
    TcpOptions options{.linger = std::chrono::milliseconds{50}};  // the idle peer takes all of it
    for (std::uint32_t i = 0; i < 4; ++i) {
        Server server = small_server(io_threads);
        const auto where = server.listen(options);
        REQUIRE(where.has_value());
        options.port = where->port;
        RawPeer idle{*where};  // its connection is ended by the server, and lingers in the kernel
        (void)idle.read(29);
        pass_one(server, *where, i);
        server.close();
        CHECK(idle.read_acks_to_end() == 0);
    }
}

TEST_CASE("Tcp: a program that this process starts inherits none of the server's sockets") {
    const std::size_t before = count_plain_sockets();
    Server server = small_server();
    const Endpoint endpoint = *server.listen();
    RawPeer peer{endpoint};
    (void)peer.read(29);                     // accepted, and served
    CHECK(count_plain_sockets() == before);  // the peer closes its own likewise
}
