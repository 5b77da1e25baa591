// SPDX-License-Identifier: Apache-2.0
#include "ingest/driver.hpp"
#include "ingest/processes.hpp"
#include "ingest/programs.hpp"
#include "ingest/samples.hpp"
#include <rondo/tcp_client.hpp>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace rondo::bench {
namespace {

/// Samples that a connection sends before the others of its process get their turn.
constexpr std::uint64_t sends_per_turn = 64;

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "load: %s\n", why.c_str());
    std::_Exit(EXIT_FAILURE);
}

class Load {
public:
    Load(const LoadOptions& options, const SampleSpec& spec, LoadProcess process)
        : options_{options}, process_{process}, samples_{random_samples(spec)} {}

    void run() {
        for (std::uint32_t i = 0; i < process_.connections(); ++i) {
            asio::co_spawn(context_, connect(), rethrow);
        }
        context_.run();
        context_.restart();
        process_.wait_for_start();
        for (std::uint32_t i = 0; i < process_.connections(); ++i) {
            asio::co_spawn(context_, options_.rate > 0 ? send_paced(i) : send_all(i), rethrow);
        }
        context_.run();
    }

private:
    static void rethrow(const std::exception_ptr& error) {
        if (error) std::rethrow_exception(error);
    }

    asio::awaitable<void> connect();
    asio::awaitable<void> send_all(std::uint32_t index);
    asio::awaitable<void> send_paced(std::uint32_t index);

    const LoadOptions& options_;
    const LoadProcess process_;
    const std::vector<Sample> samples_;
    asio::io_context context_{1};
    std::vector<TcpClient> clients_;
};

asio::awaitable<void> Load::connect() {
    auto client = co_await TcpClient::connect("127.0.0.1", options_.port, samples_.front().spec());
    if (!client) fail(client.error().message());
    clients_.push_back(std::move(*client));
    if (clients_.size() == process_.connections()) context_.stop();
}

asio::awaitable<void> Load::send_all(std::uint32_t index) {
    TcpClient& client = clients_[index];
    for (std::uint64_t i = 1;; ++i) {
        const auto sent = co_await client.send(samples_[i % samples_.size()]);
        if (!sent) fail(sent.error().message());
        if (i % sends_per_turn == 0) co_await asio::post(asio::use_awaitable);
    }
}

// By a timetable that does not wait for the server, and evenly over all connections. A sample that
// goes out late is stamped when it does.
asio::awaitable<void> Load::send_paced(std::uint32_t index) {
    TcpClient& client = clients_[index];
    Sample sample = samples_.front();
    const std::chrono::duration<double, std::nano> interval{1e9 * options_.connections /
                                                            options_.rate};
    const double phase = static_cast<double>(process_.first() + index) / options_.connections;
    const auto start = std::chrono::steady_clock::now();
    asio::steady_timer timer{context_};
    for (std::uint64_t i = 0;; ++i) {
        const auto after = interval * (static_cast<double>(i) + phase);
        timer.expires_at(start +
                         std::chrono::duration_cast<std::chrono::steady_clock::duration>(after));
        co_await timer.async_wait(asio::use_awaitable);
        const std::uint64_t now = now_ns();
        std::memcpy(sample.array<std::byte>(0).data(), &now, sizeof now);
        const auto sent = co_await client.send(sample);
        if (!sent) fail(sent.error().message());
    }
}

}  // namespace

int load(const LoadOptions& options) {
    const auto spec = SampleSpec::parse(options.spec);
    if (!spec) fail(spec.error().message());
    const LoadProcess process = LoadProcess::fork(options.processes, options.connections);
    Load{options, *spec, process}.run();
    return EXIT_SUCCESS;
}

}  // namespace rondo::bench
