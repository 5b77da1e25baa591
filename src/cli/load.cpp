// SPDX-License-Identifier: Apache-2.0
#include "cli/load.hpp"

#include "cli/exit_code.hpp"
#include "cli/file_limit.hpp"
#include "cli/format.hpp"
#include "cli/host_port.hpp"
#include "cli/progress.hpp"
#include "cli/random.hpp"
#include "cli/signals.hpp"
#include "cli/throughput.hpp"
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>
#include <rondo/tcp_client.hpp>
#include <rondo/version.hpp>

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

namespace rondo::cli {
namespace {

/// Samples that one connection sends in a row.
constexpr std::uint64_t sends_per_turn = 64;

/// Random bytes, none of them 0, so that a learner can tell them from memory never written.
Sample random_sample(const SampleSpec& spec) {
    Sample sample{spec};
    Random random{1};
    for (std::size_t index = 0; index < spec.size(); ++index) {
        const bool boolean = spec.arrays()[index].type == dtype::boolean;
        for (std::byte& byte : sample.array<std::byte>(index)) {
            byte = static_cast<std::byte>(boolean ? 1 : 1 + random.next() % 255);
        }
    }
    return sample;
}

class Load {
public:
    Load(const LoadOptions& options, HostPort server, const SampleSpec& spec)
        : options_{options}, server_{std::move(server)}, sample_{random_sample(spec)} {}

    int run();

private:
    struct Actor {
        std::optional<TcpClient> client;
        std::uint64_t sent = 0;
        asio::cancellation_signal stop;
    };

    asio::awaitable<void> act(Actor& actor);
    asio::awaitable<void> connect(Actor& actor);
    asio::awaitable<void> send_all(Actor& actor);
    void stop();
    void finish();
    void note(std::uint64_t& counter, const std::string& why);
    void count_acknowledged();
    void show_progress();
    void complain_of_connections() const;
    void print_summary() const;
    void print_json() const;

    [[nodiscard]] double bytes(double samples) const {
        return samples * static_cast<double>(sample_.spec().payload_bytes());
    }

    const LoadOptions& options_;
    const HostPort server_;
    const Sample sample_;
    Throughput throughput_;  // of what was acknowledged
    std::uint64_t unacknowledged_ = 0;
    std::uint64_t connections_failed_ = 0;
    std::uint64_t connections_lost_ = 0;
    std::string first_reason_;

    asio::io_context context_{1};
    asio::steady_timer all_connected_{context_, asio::steady_timer::time_point::max()};
    Progress progress_{options_.json ? stderr : stdout};
    StopSignals stop_{context_, [this] { stop(); }};
    Ticker ticker_{context_, progress_.interval(), [this] { show_progress(); }};
    std::deque<Actor> actors_;
    std::size_t connecting_ = 0;
    std::size_t acting_ = 0;
};

asio::awaitable<void> Load::act(Actor& actor) {
    // A cancelled wait is a result here, not an exception: there is still something to do then.
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await connect(actor);
    if (actor.client && connections_failed_ == 0) co_await send_all(actor);

    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    if (actor.client) {
        const std::uint64_t unacknowledged = co_await actor.client->close();
        unacknowledged_ += unacknowledged;
    }
    if (--acting_ == 0) finish();
}

// Returns once all are connected, or could not.
asio::awaitable<void> Load::connect(Actor& actor) {
    auto client = co_await TcpClient::connect(server_.host, server_.port, sample_.spec(),
                                              {.max_in_flight = options_.window});
    if (client) {
        actor.client = std::move(*client);
    } else {
        note(connections_failed_, client.error().message());
    }
    if (--connecting_ == 0) {
        throughput_.start(std::chrono::steady_clock::now());
        all_connected_.cancel();
        co_return;
    }
    if (stop_.stopping()) co_return;
    std::error_code woken;
    co_await all_connected_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
}

asio::awaitable<void> Load::send_all(Actor& actor) {
    const bool endless = options_.samples == 0;
    while ((endless || actor.sent < options_.samples) && !stop_.stopping()) {
        const auto sent = co_await actor.client->send(sample_);
        if (!sent) {
            actor.sent += sent.error().sent;
            note(connections_lost_, sent.error().message());
            co_return;
        }
        ++actor.sent;
        // While the server keeps up, `send` never suspends: give the other connections, the clock
        // and the signals a turn.
        if (actor.sent % sends_per_turn == 0) co_await asio::post(asio::use_awaitable);
    }
    if (stop_.stopping()) co_return;
    const auto acknowledged = co_await actor.client->wait();
    if (!acknowledged) note(connections_lost_, acknowledged.error().message());
}

void Load::stop() {
    for (Actor& actor : actors_) actor.stop.emit(asio::cancellation_type::terminal);
}

void Load::finish() {
    count_acknowledged();
    ticker_.stop();
    stop_.disarm();
}

void Load::note(std::uint64_t& counter, const std::string& why) {
    if (stop_.stopping()) return;  // it was us
    if (first_reason_.empty()) first_reason_ = why;
    ++counter;
}

int Load::run() {
    connecting_ = acting_ = options_.actors;
    for (std::uint32_t i = 0; i < options_.actors; ++i) {
        Actor& actor = actors_.emplace_back();
        asio::co_spawn(
            context_, act(actor),
            asio::bind_cancellation_slot(actor.stop.slot(), [](const std::exception_ptr& error) {
                if (error) std::rethrow_exception(error);
            }));
    }
    context_.run();
    progress_.clear();
    complain_of_connections();
    if (options_.json) {
        print_json();
    } else {
        print_summary();
    }
    const bool well = unacknowledged_ == 0 && connections_failed_ == 0 && connections_lost_ == 0;
    return well ? exit_ok : exit_failed;
}

void Load::count_acknowledged() {
    std::uint64_t acknowledged = 0;
    for (const Actor& actor : actors_) {
        const std::uint64_t open = actor.client ? actor.client->in_flight() : 0;
        acknowledged += actor.sent - std::min(actor.sent, open);
    }
    if (acknowledged > throughput_.samples()) {
        throughput_.add(acknowledged - throughput_.samples(), std::chrono::steady_clock::now());
    }
}

void Load::show_progress() {
    if (connecting_ > 0) {
        progress_.show("connecting, " + grouped(connecting_) + " to go");
        return;
    }
    count_acknowledged();
    const double rate = throughput_.recent_per_second(std::chrono::steady_clock::now());
    progress_.show(counted(throughput_.samples(), "sample") + " acknowledged, " +
                   rate_text(rate, bytes(rate)) + ", " + counted(acting_, "connection"));
}

void Load::complain_of_connections() const {
    const auto complain_of = [&](std::uint64_t number, const char* what) {
        if (number == 0) return;
        complain(grouped(number) + " of " + counted(options_.actors, "connection") + " " + what +
                 (number > 1 ? "; the first: " : ": ") + first_reason_);
    };
    complain_of(connections_failed_, "could not be made");
    complain_of(connections_lost_, "ended before everything was acknowledged");
}

void Load::print_summary() const {
    const double rate = throughput_.per_second();
    print_line(stdout, counted(throughput_.samples(), "sample") + " acknowledged, " +
                           grouped(unacknowledged_) + " not, over " +
                           counted(options_.actors, "connection") + ", " +
                           fixed(throughput_.seconds(), 2) + " s");
    print_line(stdout, rate_text(rate, bytes(rate)));
}

void Load::print_json() const {
    const double rate = throughput_.per_second();
    nlohmann::ordered_json summary;
    summary["event"] = "summary";
    summary["command"] = "load";
    summary["version"] = RONDO_VERSION;
    summary["actors"] = options_.actors;
    summary["samples"] = throughput_.samples();
    summary["unacknowledged"] = unacknowledged_;
    summary["connections_failed"] = connections_failed_;
    summary["connections_lost"] = connections_lost_;
    summary["payload_bytes"] = sample_.spec().payload_bytes();
    summary["seconds"] = throughput_.seconds();
    summary["samples_per_second"] = rate;
    summary["megabytes_per_second"] = bytes(rate) / 1e6;
    summary["interrupted"] = stop_.stopping();
    print_line(stdout, summary.dump());
}

}  // namespace

int run_load(const LoadOptions& options) {
    const auto spec = SampleSpec::parse(options.spec);
    if (!spec) {
        complain(spec.error().message());
        return exit_usage;
    }
    auto server = parse_host_port(options.connect);
    if (!server) {
        complain("--connect: " + server.error());
        return exit_usage;
    }
    raise_file_limit();
    return Load{options, std::move(*server), *spec}.run();
}

}  // namespace rondo::cli
