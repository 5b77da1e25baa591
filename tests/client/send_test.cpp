// SPDX-License-Identifier: Apache-2.0
#include "client/support.hpp"

#include <asio/post.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <thread>

namespace {

using namespace rondo;
using namespace rondo::test;
using namespace std::chrono_literals;
using Code = SendError::Code;
using Result = tl::expected<void, SendError>;

constexpr int small_receive_buffer = 16 * 1024;
constexpr std::size_t mib = std::size_t{1} << 20U;
// More than the kernel holds for one connection, so a peer that does not read stops the sender.
constexpr std::size_t unsendable = 24 * mib;

std::vector<std::byte> operator+(std::vector<std::byte> a, const std::vector<std::byte>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// Stacked arrays with rows that differ, and each row's payload.
struct Stacked {
    Stacked(const SampleSpec& spec, std::size_t rows) : memory(spec.size()) {
        for (std::size_t row = 0; row < rows; ++row) {
            const Sample sample = filled(spec, static_cast<std::uint32_t>(row));
            for (std::size_t i = 0; i < spec.size(); ++i) {
                const ArrayBytes bytes = sample.arrays()[i];
                memory[i].insert(memory[i].end(), bytes.begin(), bytes.end());
            }
            payloads.push_back(payload_of(sample));
        }
        for (const auto& array : memory) arrays.emplace_back(array);
    }
    std::vector<std::vector<std::byte>> memory;
    std::vector<ArrayBytes> arrays;
    std::vector<std::vector<std::byte>> payloads;
};

/// Reads and acknowledges `samples` samples on a thread of its own.
class Reader {
public:
    Reader(ScriptedPeer& peer, std::size_t payload, std::size_t samples)
        : thread_{[this, &peer, payload, samples] {
              for (std::size_t i = 0; i < samples; ++i) {
                  received_.push_back(peer.read_exactly(payload));
                  peer.ack(1);
              }
          }} {}
    const std::vector<std::vector<std::byte>>& join() {
        thread_.join();
        return received_;
    }

private:
    std::vector<std::vector<std::byte>> received_;
    std::thread thread_;
};

/// This process's socket whose peer has `port` on 127.0.0.1.
int socket_to(std::uint16_t port) {
    for (int socket = 0; socket < 1'024; ++socket) {
        sockaddr_in peer{};
        socklen_t size = sizeof peer;
        const int known = ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size);
        if (known == 0 && ntohs(peer.sin_port) == port) return socket;
    }
    throw std::runtime_error{"no socket is connected to that port"};
}

int socket_option(int socket, int level, int option) {
    int value = 0;
    socklen_t size = sizeof value;
    REQUIRE(::getsockopt(socket, level, option, &value, &size) == 0);
    return value;
}

}  // namespace

TEST_CASE("Client: a lone small sample is on the wire when send returns") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of("a:uint8[3],nothing:float32[0],b:float64[2]");
    TcpClient client = connected(loop, peer, spec);
    const Sample sample = filled(spec, 1);
    REQUIRE(loop.spawn(client.send(sample)).result().has_value());
    CHECK(peer.read_exactly(19) == payload_of(sample));
    CHECK(client.in_flight() == 1);
}

TEST_CASE("Client: samples of every size arrive whole, in order, and are acknowledged") {
    const std::size_t size =
        GENERATE(as<std::size_t>{}, 1, 2, 8191, 8192, 8193, 65'537, mib, 16 * mib);
    CAPTURE(size);
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(size);
    TcpClient client = connected(loop, peer, spec);
    Reader reader{peer, size, 3};
    std::vector<std::vector<std::byte>> sent;
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
        Sample sample = filled(spec, seed);
        sent.push_back(payload_of(sample));
        REQUIRE(loop.run(client.send(sample)).has_value());
        // The memory is ours again.
        std::ranges::fill(sample.array<std::byte>(spec.size() - 1), std::byte{0xee});
    }
    REQUIRE(loop.run(client.wait()).has_value());
    CHECK((reader.join() == sent));
    CHECK(client.in_flight() == 0);
}

TEST_CASE("Client: a full window suspends send, and an ack resumes it") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(GENERATE(as<std::uint64_t>{}, 10, 10'000));
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 2});
    const Sample sample{spec};
    REQUIRE(loop.run(client.send(sample)).has_value());
    REQUIRE(loop.run(client.send(sample)).has_value());
    const auto third = loop.spawn(client.send(sample));
    const auto fourth = loop.spawn(client.send(sample));
    loop.poll();
    CHECK_FALSE(third.done());
    peer.ack(1);
    CHECK(loop.await(third).has_value());
    loop.poll();
    CHECK_FALSE(fourth.done());
    CHECK(client.in_flight() == 2);
    peer.ack(1);
    CHECK(loop.await(fourth).has_value());
}

TEST_CASE("Client: a full window looks for acks without the executor's help") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 1});
    const Sample sample{spec};
    REQUIRE(*client.try_send(sample));
    REQUIRE_FALSE(*client.try_send(sample));
    peer.ack(1);
    while (!*client.try_send(sample)) std::this_thread::yield();
    CHECK(client.in_flight() == 1);
}

TEST_CASE("Client: the window is as many samples as make 1 MiB, within limits") {
    const auto window = [](std::uint64_t payload) {
        Loop loop;
        ScriptedPeer peer;
        const auto spec = spec_of_bytes(payload);
        TcpClient client = connected(loop, peer, spec);
        const Sample sample{spec};
        while (*client.try_send(sample)) {
            loop.poll();
            peer.read_exactly(payload);
        }
        return client.in_flight();
    };
    CHECK(window(16) == 4096);
    CHECK(window(4096) == 256);
    CHECK(window(100'000) == 32);
}

TEST_CASE("Client: many coroutines share one client, and each keeps its order") {
    constexpr std::uint32_t actors = 100;
    constexpr std::uint32_t each = 20;
    const auto size = GENERATE(as<std::uint64_t>{}, 0, 9'000);
    Loop loop;
    ScriptedPeer peer;
    const auto spec =
        spec_of("actor:uint32[],number:uint32[],rest:uint8[" + std::to_string(size) + "]");
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 7});
    Reader reader{peer, spec.payload_bytes(), actors * each};
    const auto act = [&](std::uint32_t actor) -> asio::awaitable<bool> {
        Sample sample{spec};
        sample.array<std::uint32_t>("actor")[0] = actor;
        for (std::uint32_t number = 0; number < each; ++number) {
            sample.array<std::uint32_t>("number")[0] = number;
            const auto sent = co_await client.send(sample);
            if (!sent) co_return false;
        }
        co_return true;
    };
    std::vector<Task<bool>> tasks;
    for (std::uint32_t actor = 0; actor < actors; ++actor) tasks.push_back(loop.spawn(act(actor)));
    for (const auto& task : tasks) CHECK(loop.await(task));
    REQUIRE(loop.run(client.wait()).has_value());

    std::vector<std::uint32_t> next(actors, 0);
    for (const auto& payload : reader.join()) {
        std::uint32_t actor = 0;
        std::uint32_t number = 0;
        std::memcpy(&actor, payload.data(), 4);
        std::memcpy(&number, payload.data() + 4, 4);
        REQUIRE(actor < actors);
        REQUIRE(number == next[actor]++);
    }
    CHECK((next == std::vector<std::uint32_t>(actors, each)));
}

TEST_CASE("Client: stacked small samples go out in few writes") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(16);
    TcpClient client = connected(loop, peer, spec);
    const Stacked rows{spec, 4000};  // 64,000 bytes: one write, and loopback's segments are 64 KiB
    REQUIRE(loop.run(client.send_many(rows.arrays, 4000)).has_value());
    std::vector<std::byte> expected;
    for (const auto& payload : rows.payloads) expected = std::move(expected) + payload;
    CHECK((peer.read_exactly(expected.size()) == expected));
    CHECK(peer.segments() < 100);
}

TEST_CASE("Client: a burst of small samples leaves with the executor's next turn") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(16);
    TcpClient client = connected(loop, peer, spec);
    std::vector<std::byte> expected;
    for (std::uint32_t i = 0; i < 200; ++i) {
        const Sample sample = filled(spec, i);
        REQUIRE(*client.try_send(sample));
        expected = std::move(expected) + payload_of(sample);
    }
    loop.poll();  // nothing else is called
    CHECK((peer.read_exactly(expected.size()) == expected));
    CHECK(client.in_flight() == 200);
}

TEST_CASE("Client: a burst of small samples fits in few segments") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(16);
    TcpClient client = connected(loop, peer, spec);
    std::size_t bytes = 0;
    for (int i = 0; i < 3'000; ++i) {
        REQUIRE(*client.try_send(filled(spec, 7)));
        bytes += 16;
    }
    loop.poll();
    (void)peer.read_exactly(bytes);
    // One for each sample that came 100 us after the one before, if the machine stood still.
    CHECK(peer.segments() < 1'500);
}

TEST_CASE("Client: a destroyed client still writes what has gathered") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(16);
    {
        TcpClient client = connected(loop, peer, spec);
        for (std::uint32_t i = 0; i < 50; ++i) REQUIRE(*client.try_send(filled(spec, i)));
    }
    for (std::uint32_t i = 0; i < 50; ++i) {
        CHECK((peer.read_exactly(16) == payload_of(filled(spec, i))));
    }
}

TEST_CASE("Client: small samples gather while the kernel takes no more, and none is lost") {
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(1000);
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 1'000'000});
    std::uint32_t sent = 0;
    while (*client.try_send(filled(spec, sent))) ++sent;
    CHECK(client.in_flight() == sent);

    const Sample next = filled(spec, sent);
    const auto waiting = loop.spawn(client.send(next));
    CHECK_FALSE(waiting.done());
    Reader reader{peer, 1000, sent + 1};
    REQUIRE(loop.await(waiting).has_value());
    REQUIRE(loop.run(client.wait()).has_value());
    const auto& received = reader.join();
    for (std::uint32_t i = 0; i <= sent; ++i) {
        REQUIRE((received[i] == payload_of(filled(spec, i))));
    }
}

TEST_CASE("Client: send_many crosses the window") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(GENERATE(as<std::uint64_t>{}, 10, 20'000));
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 8});
    const Stacked rows{spec, 100};
    Reader reader{peer, spec.payload_bytes(), 100};
    REQUIRE(loop.run(client.send_many(rows.arrays, 100)).has_value());
    CHECK((reader.join() == rows.payloads));
    CHECK(loop.run(client.send_many(Stacked{spec, 0}.arrays, 0)).has_value());
}

TEST_CASE("Client: a sample may have more arrays than one writev takes") {
    std::string text = "a0:uint64[]";
    for (int i = 1; i < 2500; ++i) text += ",a" + std::to_string(i) + ":uint64[]";
    const auto spec = spec_of(text);
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    TcpClient client = connected(loop, peer, spec);
    const Stacked rows{spec, 5};
    Reader reader{peer, spec.payload_bytes(), 5};
    REQUIRE(loop.run(client.send_many(rows.arrays, 5)).has_value());
    CHECK((reader.join() == rows.payloads));
}

TEST_CASE("Client: a large sample waits for a peer that does not read") {
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(unsendable);
    TcpClient client = connected(loop, peer, spec);
    const Sample first = filled(spec, 1);
    const Sample second = filled(spec, 2);
    const auto one = loop.spawn(client.send(first));
    const auto two = loop.spawn(client.send(second));
    loop.poll();
    CHECK_FALSE(one.done());
    CHECK_FALSE(two.done());
    CHECK(client.in_flight() == 1);
    Reader reader{peer, unsendable, 2};
    CHECK(loop.await(one).has_value());
    CHECK(loop.await(two).has_value());
    REQUIRE(loop.run(client.wait()).has_value());
    const auto& received = reader.join();
    CHECK((received[0] == payload_of(first)));
    CHECK((received[1] == payload_of(second)));
}

TEST_CASE("Client: the kernel is given little that it cannot send yet") {
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};  // and it does not read
    const SampleSpec spec = spec_of_bytes(64 * 1024);
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 1'000});
    const Sample sample = filled(spec, 1);
    std::size_t bytes = 0;
    while (client.try_send(sample).value()) bytes += 64 * 1024;
    CHECK(bytes > 0);
    CHECK(bytes <= mib / 2);  // it would take several MiB
}

TEST_CASE("Client: the send buffer for a peer on the same machine is small") {
    Loop loop;
    ScriptedPeer peer;
    const TcpClient client = connected(loop, peer, spec_of_bytes(20));
    const int bytes = socket_option(socket_to(peer.port()), SOL_SOCKET, SO_SNDBUF);
    CHECK(bytes > 0);
    CHECK(bytes <= 512 * 1024);  // the kernel doubles what it is told
}

TEST_CASE("Client: a large send that is given up has been sent whole") {
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(unsendable);
    TcpClient client = connected(loop, peer, spec);
    const bool by_deadline = GENERATE(false, true);
    std::vector<std::byte> expected;
    {
        const Sample abandoned = filled(spec, 1);
        expected = payload_of(abandoned);
        const auto task =
            loop.spawn(client.send(abandoned, by_deadline ? Deadline{10ms} : Deadline{}));
        if (!by_deadline) {
            REQUIRE_FALSE(task.done());
            task.cancel();
        }
        const Result& result = loop.await(task);
        REQUIRE_FALSE(result.has_value());
        CHECK(result.error().code == (by_deadline ? Code::timed_out : Code::cancelled));
        CHECK(result.error().sent == 1);
        CHECK(result.error().unacknowledged == 1);
    }  // its memory is gone
    const Sample next = filled(spec, 2);
    const auto task = loop.spawn(client.send(next));
    REQUIRE_FALSE(task.done());
    Reader reader{peer, unsendable, 2};
    CHECK(loop.await(task).has_value());
    REQUIRE(loop.run(client.wait()).has_value());
    CHECK((reader.join() == std::vector{expected, payload_of(next)}));
}

TEST_CASE("Client: a large send whose coroutine is destroyed has been sent whole") {
    Loop of_client;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(unsendable);
    TcpClient client = connected(of_client, peer, spec);
    const auto payload = payload_of(filled(spec, 1));
    {
        Loop of_sender;
        const auto act = [&]() -> asio::awaitable<bool> {
            const Sample sample = filled(spec, 1);
            const auto sent = co_await client.send(sample);
            co_return sent.has_value();
        };
        CHECK_FALSE(of_sender.spawn(act()).done());
        of_sender.destroy();
    }
    Reader reader{peer, unsendable, 1};
    REQUIRE(of_client.run(client.wait()).has_value());
    CHECK((reader.join().front() == payload));
}

TEST_CASE("Client: a send that is given up before it began leaves nothing") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(GENERATE(as<std::uint64_t>{}, 10, 10'000));
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 1});
    const Sample sample{spec};
    REQUIRE(loop.run(client.send(sample)).has_value());

    const auto late = loop.run(client.send(sample, 5ms));
    REQUIRE_FALSE(late.has_value());
    CHECK(late.error().code == Code::timed_out);
    CHECK(late.error().sent == 0);
    CHECK(late.error().unacknowledged == 1);

    const auto task = loop.spawn(client.send(sample));
    task.cancel();
    const Result& cancelled = loop.await(task);
    REQUIRE_FALSE(cancelled.has_value());
    CHECK(cancelled.error().code == Code::cancelled);
    CHECK(cancelled.error().sent == 0);
    CHECK(client.in_flight() == 1);
}

TEST_CASE("Client: a cancelled send_many says how many samples went") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(GENERATE(as<std::uint64_t>{}, 10, 10'000));
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 3});
    const Stacked rows{spec, 10};
    const auto task = loop.spawn(client.send_many(rows.arrays, 10));
    REQUIRE_FALSE(task.done());
    peer.ack(2);
    loop.run_until(
        [&] { return client.in_flight() == 3 && peer.available() == 5 * spec.payload_bytes(); });
    task.cancel();
    const Result& result = loop.await(task);
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().sent == 5);
    CHECK(result.error().unacknowledged == 3);
}

TEST_CASE("Client: a cancelled waiter's turn goes to the next") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec, {.max_in_flight = 1});
    const Sample sample{spec};
    REQUIRE(loop.run(client.send(sample)).has_value());
    const auto first = loop.spawn(client.send(sample));
    const auto second = loop.spawn(client.send(sample));
    peer.ack(1);
    first.cancel();
    CHECK(loop.await(second).has_value());
    CHECK(loop.await(first).has_value() == false);
}

TEST_CASE("Client: arrays that are not the spec's are refused, and nothing is sent") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of("a:float32[2],b:uint8[]");
    TcpClient client = connected(loop, peer, spec);
    const std::vector<std::byte> memory(64);
    const auto bytes = [&](std::size_t size) { return ArrayBytes{memory}.first(size); };
    const std::vector<std::vector<ArrayBytes>> wrong{
        {}, {bytes(8)}, {bytes(7), bytes(1)}, {bytes(8), bytes(2)}, {bytes(16), bytes(2)}};
    for (const auto& arrays : wrong) {
        const auto tried = client.try_send(arrays);
        REQUIRE_FALSE(tried.has_value());
        CHECK(tried.error().code == Code::mismatch);
        const auto sent = loop.run(client.send(arrays));
        REQUIRE_FALSE(sent.has_value());
        CHECK(sent.error().code == Code::mismatch);
        CHECK_FALSE(sent.error().detail.empty());
    }
    const std::vector<ArrayBytes> two{bytes(16), bytes(2)};
    CHECK(loop.run(client.send_many(two, 3)).error().code == Code::mismatch);
    CHECK(client.in_flight() == 0);
    CHECK(loop.run(client.send_many(two, 2)).has_value());
}

TEST_CASE("Client: try_send of a large sample finishes it from a copy") {
    Loop loop;
    ScriptedPeer peer{small_receive_buffer};
    const auto spec = spec_of_bytes(unsendable);
    TcpClient client = connected(loop, peer, spec);
    const auto payload = payload_of(filled(spec, 1));
    REQUIRE(*client.try_send(filled(spec, 1)));
    CHECK_FALSE(*client.try_send(filled(spec, 2)));
    CHECK(client.in_flight() == 1);
    Reader reader{peer, unsendable, 1};
    REQUIRE(loop.run(client.wait()).has_value());
    CHECK((reader.join().front() == payload));
    CHECK(*client.try_send(filled(spec, 3)));
}

TEST_CASE("Client: try_send on a closed client is an error") {
    Loop loop;
    ScriptedPeer peer;
    const auto spec = spec_of_bytes(10);
    TcpClient client = connected(loop, peer, spec);
    CHECK(loop.run(client.close()) == 0);
    const auto tried = client.try_send(Sample{spec});
    REQUIRE_FALSE(tried.has_value());
    CHECK(tried.error().code == Code::connection_closed);
    CHECK_THAT(tried.error().message(), contains("the client was closed"));
}
