// SPDX-License-Identifier: Apache-2.0
// A transport of a user's own, through `Server::add`.
#include "support/catch.hpp"
#include "transport/harness.hpp"
#include <rondo/server.hpp>
#include <rondo/transport.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace rondo;
using namespace rondo::test;

namespace {

/// What became of a transport, for the test to read after the server took it.
struct Fate {
    std::atomic<int> started{0};
    std::atomic<int> stopped{0};
    std::atomic<int> destroyed{0};
    std::atomic<bool> saw_closed{false};
};

/// Reads payloads from a pipe.
class PipeTransport final : public Transport {
public:
    PipeTransport(int pipe, std::shared_ptr<Fate> fate) : fate_{std::move(fate)}, pipe_{pipe} {}
    ~PipeTransport() override { ++fate_->destroyed; }

    tl::expected<void, ListenError> start(Ingress ingress) override {
        ++fate_->started;
        if (pipe_ < 0) {
            return tl::unexpected{ListenError{ListenError::Code::system, "there is no pipe"}};
        }
        ingress_.emplace(std::move(ingress));
        descriptor_.assign(::dup(pipe_));
        asio::co_spawn(context_, read(), asio::detached);
        thread_ = std::thread{[this] { context_.run(); }};
        return {};
    }

    void stop() noexcept override {
        ++fate_->stopped;
        asio::post(context_, [this] { descriptor_.close(); });
        thread_.join();
        ingress_.reset();
    }

private:
    asio::awaitable<void> read() {
        Bytes buffer(ingress_->spec().payload_bytes() * 4);
        std::size_t held = 0;
        for (;;) {
            std::error_code error;
            held += co_await descriptor_.async_read_some(
                asio::buffer(buffer.data() + held, buffer.size() - held),
                asio::redirect_error(asio::use_awaitable, error));
            if (error) co_return;
            const std::size_t payload = ingress_->spec().payload_bytes();
            std::span<const std::byte> whole{buffer.data(), held / payload * payload};
            while (!whole.empty()) {
                const auto taken = ingress_->try_insert_payloads(whole);
                if (!taken) {
                    fate_->saw_closed = taken.error().code == InsertError::Code::closed;
                    co_return;
                }
                whole = whole.subspan(*taken * payload);
                if (whole.empty()) break;
                const bool room =
                    co_await ingress_->async_wait_for_room(Deadline{}, asio::use_awaitable);
                if (!room) fate_->saw_closed = true;
                if (!room) co_return;
            }
            std::copy(buffer.begin() + static_cast<std::ptrdiff_t>(held / payload * payload),
                      buffer.begin() + static_cast<std::ptrdiff_t>(held), buffer.begin());
            held %= payload;
        }
    }

    std::shared_ptr<Fate> fate_;
    int pipe_;
    std::optional<Ingress> ingress_;
    asio::io_context context_;
    asio::posix::stream_descriptor descriptor_{context_};
    std::thread thread_;
};

void write_all(int pipe, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(pipe, bytes.data(), bytes.size());
        if (written < 0) throw std::runtime_error{"write to the pipe"};
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

constexpr std::uint64_t payload = 500;

struct PipeServer {
    Pipe pipe;
    std::shared_ptr<Fate> fate = std::make_shared<Fate>();
    Server server =
        Server::create(spec_of_bytes(payload), {.batch_size = 4, .num_buffers = 2}).value();

    PipeServer() {
        auto added = server.add(std::make_unique<PipeTransport>(pipe.reader(), fate));
        if (!added) throw std::runtime_error{added.error().message()};
    }
};

}  // namespace

TEST_CASE("Tcp: a user's transport fills the ring and waits when it is full") {
    PipeServer own;
    const Payloads payloads{payload};
    auto actor = std::async(std::launch::async,
                            [&] { write_all(own.pipe.writer(), payloads.many(0, 0, 2'000)); });
    REQUIRE(eventually([&] { return own.server.metrics().producers_waiting == 1; }));
    CHECK(own.server.metrics().samples_received_total == 8);
    Verifier verifier{payloads};
    learn(own.server, verifier, 2'000);
    actor.get();
    CHECK(verifier.complaint() == "");
    CHECK(eventually([&] { return own.server.metrics().samples_received_total == 2'000; }));
}

TEST_CASE("Tcp: a user's transport and connections share one ring") {
    PipeServer own;
    const auto where = own.server.listen();
    REQUIRE(where.has_value());
    const Payloads payloads{payload};
    auto piped = std::async(std::launch::async,
                            [&] { write_all(own.pipe.writer(), payloads.many(0, 0, 400)); });
    auto connected = std::async(std::launch::async, [&] {
        RawPeer peer{*where};
        (void)peer.read(9 + 12);
        peer.write(payloads.many(1, 0, 400));
        peer.half_close();
        return peer.read_acks_to_end();
    });
    Verifier verifier{payloads};
    learn(own.server, verifier, 800);
    piped.get();
    CHECK(connected.get() == 400);
    CHECK(verifier.complaint() == "");
}

TEST_CASE("Tcp: a user's transport that waits for room is told to stop") {
    PipeServer own;
    const Payloads payloads{payload};
    write_all(own.pipe.writer(), payloads.many(0, 0, 20));
    REQUIRE(eventually([&] { return own.server.metrics().producers_waiting == 1; }));
    own.server.close();
    CHECK(own.fate->saw_closed);
    CHECK(own.fate->stopped == 1);
    CHECK(own.fate->destroyed == 1);
    Verifier verifier{payloads};
    learn_rest(own.server, verifier);
    CHECK(verifier.samples() == 8);
    CHECK(verifier.complaint() == "");
}

TEST_CASE("Tcp: a user's transport is stopped once, by close or by destruction") {
    std::shared_ptr<Fate> fate;
    {
        PipeServer own;
        fate = own.fate;
        const bool close_first = GENERATE(true, false);
        if (close_first) own.server.close();
    }
    CHECK(fate->started == 1);
    CHECK(fate->stopped == 1);
    CHECK(fate->destroyed == 1);
}

TEST_CASE("Tcp: a transport that cannot start is destroyed, and its error returned") {
    const auto fate = std::make_shared<Fate>();
    Server server = Server::create(spec_of_bytes(payload), {.batch_size = 4}).value();
    const auto added = server.add(std::make_unique<PipeTransport>(-1, fate));
    REQUIRE_FALSE(added.has_value());
    CHECK(added.error().message() == "there is no pipe");
    CHECK(fate->destroyed == 1);
    CHECK(fate->stopped == 0);
    CHECK(server.listen().has_value());
}

TEST_CASE("Tcp: a closed server takes no transport") {
    const auto fate = std::make_shared<Fate>();
    Server server = Server::create(spec_of_bytes(payload), {.batch_size = 4}).value();
    server.close();
    const auto added = server.add(std::make_unique<PipeTransport>(-1, fate));
    REQUIRE_FALSE(added.has_value());
    CHECK(added.error().code == ListenError::Code::closed);
    CHECK(fate->started == 0);
}
