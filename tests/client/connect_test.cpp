// SPDX-License-Identifier: Apache-2.0
#include "client/support.hpp"

#include <asio/thread_pool.hpp>

namespace {

using namespace rondo;
using namespace rondo::test;
using namespace std::chrono_literals;
using Code = ConnectError::Code;

const char* const spec_text = "obs:float32[4],reward:float32[]";

/// Connects to a peer that says `words` and then, if told so, closes.
ConnectError error_of(std::string_view words, bool close = true) {
    Loop loop;
    ScriptedPeer peer;
    const auto task = loop.spawn(TcpClient::connect("127.0.0.1", peer.port(), spec_of(spec_text)));
    peer.accept();
    peer.say(words);
    if (close) peer.close();
    const auto& client = loop.await(task);
    REQUIRE_FALSE(client.has_value());
    return client.error();
}

std::string greeting_text(std::string_view text) {
    const auto bytes = *wire::encode_greeting(spec_of(text));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("Client: connects to a server with the same spec") {
    Loop loop;
    ScriptedPeer peer;
    const TcpClient client = connected(loop, peer, spec_of(spec_text));
    CHECK(client.was_open());
    CHECK(client.in_flight() == 0);
    CHECK(client.spec() == spec_of(spec_text));
}

TEST_CASE("Client: a host name is resolved, and every address of it is tried") {
    Loop loop;
    ScriptedPeer peer;  // on 127.0.0.1 only, and localhost may be ::1 as well
    const auto task = loop.spawn(TcpClient::connect("localhost", peer.port(), spec_of(spec_text)));
    loop.run_until([&] { return task.done() || (peer.has_connection() && (peer.accept(), true)); });
    REQUIRE_FALSE(task.done());
    peer.greet(spec_of(spec_text));
    CHECK(loop.await(task).has_value());
}

TEST_CASE("Client: a greeting may come byte by byte") {
    Loop loop;
    ScriptedPeer peer;
    const auto task = loop.spawn(TcpClient::connect("127.0.0.1", peer.port(), spec_of(spec_text)));
    peer.accept();
    for (const char byte : greeting_text(spec_text)) {
        REQUIRE_FALSE(task.done());
        peer.say(std::string_view{&byte, 1});
        loop.poll();
    }
    CHECK(loop.await(task).has_value());
}

TEST_CASE("Client: connecting where nobody listens is refused") {
    Loop loop;
    ScriptedPeer peer;
    peer.stop_listening();
    const auto client = loop.run(TcpClient::connect("127.0.0.1", peer.port(), spec_of(spec_text)));
    REQUIRE_FALSE(client.has_value());
    CHECK(client.error().code == Code::refused);
    CHECK_THAT(client.error().message(), contains("127.0.0.1:" + std::to_string(peer.port())));
    CHECK_THAT(client.error().message(), contains("is the server running"));
}

TEST_CASE("Client: an unknown host is an error of its own") {
    Loop loop;
    const auto client =
        loop.run(TcpClient::connect("no-such-host.invalid", 1, spec_of(spec_text), {0, 60s}));
    REQUIRE_FALSE(client.has_value());
    CHECK(client.error().code == Code::resolve);
    CHECK_THAT(client.error().message(), contains("no-such-host.invalid"));
}

TEST_CASE("Client: a peer that never greets is given up") {
    Loop loop;
    ScriptedPeer peer;
    const auto task =
        loop.spawn(TcpClient::connect("127.0.0.1", peer.port(), spec_of(spec_text), {0, 20ms}));
    peer.accept();
    const auto& client = loop.await(task);
    REQUIRE_FALSE(client.has_value());
    CHECK(client.error().code == Code::timed_out);
    CHECK_THAT(client.error().message(), contains("greeting has not come"));
    CHECK(peer.read_to_end().empty());
}

TEST_CASE("Client: a peer that speaks something else is told apart") {
    const ConnectError error = error_of("HTTP/1.1 400 Bad Request\r\n\r\n", false);
    CHECK(error.code == Code::protocol);
    CHECK_THAT(error.message(), contains("\"HTTP\"") && contains("\"ECHO\""));
}

TEST_CASE("Client: a peer that closes before or in its greeting is an error") {
    CHECK(error_of("").code == Code::cut_off);
    CHECK_THAT(error_of("").message(), contains("before it sent its greeting"));
    const std::string whole = greeting_text(spec_text);
    for (std::size_t size = 1; size < whole.size(); ++size) {
        const ConnectError error = error_of(std::string_view{whole}.substr(0, size));
        CHECK(error.code == Code::cut_off);
        CHECK_THAT(error.message(), contains("in the middle of its greeting"));
    }
}

TEST_CASE("Client: a peer that announces more than anybody has is refused") {
    CHECK(error_of(std::string{"ECHO\x01\xff\xff\xff\xff", 9}, false).code == Code::protocol);
}

TEST_CASE("Client: bytes behind the greeting are an error, since nothing was sent") {
    const ConnectError error = error_of(greeting_text(spec_text) + '\x01', false);
    CHECK(error.code == Code::protocol);
    CHECK_THAT(error.message(), contains("behind its greeting"));
}

TEST_CASE("Client: a reset in place of a greeting is an error") {
    Loop loop;
    ScriptedPeer peer;
    const auto task = loop.spawn(TcpClient::connect("127.0.0.1", peer.port(), spec_of(spec_text)));
    peer.accept();
    peer.reset();
    const auto& client = loop.await(task);
    REQUIRE_FALSE(client.has_value());
    CHECK(client.error().code == Code::cut_off);
}

TEST_CASE("Client: another spec is a mismatch that shows both sides") {
    const ConnectError error = error_of(greeting_text("obs:float32[3],reward:float32[]"), false);
    CHECK(error.code == Code::spec_mismatch);
    CHECK_THAT(error.message(),
               contains("Server spec mismatch") && contains("[3]") && contains("float32[4]"));
}

TEST_CASE("Client: what cannot be connected with is refused before anything is tried") {
    Loop loop;
    const auto code = [&](std::string_view host, std::uint16_t port, std::string_view spec) {
        return loop.run(TcpClient::connect(host, port, spec_of(spec))).error().code;
    };
    CHECK(code("", 1, spec_text) == Code::invalid_option);
    CHECK(code("127.0.0.1", 0, spec_text) == Code::invalid_option);
    CHECK(code({"127.0.0.1\0.example", 18}, 1, spec_text) == Code::invalid_option);
    CHECK(code("127.0.0.1", 1, "x:uint8[0]") == Code::spec_unsuited);
}

TEST_CASE("Client: connecting can be cancelled, and closes the connection") {
    Loop loop;
    ScriptedPeer peer;
    const auto task = loop.spawn(TcpClient::connect("127.0.0.1", peer.port(), spec_of(spec_text)));
    peer.accept();
    loop.poll();
    REQUIRE_FALSE(task.done());
    task.cancel();
    const auto& client = loop.await(task);
    REQUIRE_FALSE(client.has_value());
    CHECK(client.error().code == Code::cancelled);
    CHECK(peer.read_to_end().empty());
}

TEST_CASE("Client: an io_context may be destroyed while a client connects") {
    ScriptedPeer peer;
    {
        Loop loop;
        loop.spawn(TcpClient::connect("127.0.0.1", peer.port(), spec_of(spec_text)));
        peer.accept();
        loop.poll();
    }
    CHECK(peer.read_to_end().empty());
}

TEST_CASE("Client: an io_context may be destroyed while a name is resolved") {
    Loop loop;
    loop.spawn(TcpClient::connect("localhost", 1, spec_of(spec_text)));
}
