// SPDX-License-Identifier: Apache-2.0
#include "cli/serve.hpp"

#include "cli/exit_code.hpp"
#include "cli/file_limit.hpp"
#include "cli/format.hpp"
#include "cli/progress.hpp"
#include "cli/signals.hpp"
#include "cli/throughput.hpp"
#include <rondo/server.hpp>
#include <rondo/version.hpp>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace rondo::cli {
namespace {

class Serving {
public:
    Serving(const ServeOptions& options, Server& server) : options_{options}, server_{server} {}

    int run(const Endpoint& where);

private:
    asio::awaitable<void> learn();
    void drain();
    void announce(const Endpoint& where) const;
    void show_progress();
    void print_summary() const;
    void print_json() const;

    [[nodiscard]] double bytes(double samples) const {
        return samples * static_cast<double>(server_.spec().payload_bytes());
    }

    const ServeOptions& options_;
    Server& server_;
    Throughput throughput_;
    std::uint64_t batches_ = 0;

    asio::io_context context_{1};
    Progress progress_{options_.json ? stderr : stdout};
    StopSignals stop_{context_, [this] { drain(); }};
    Ticker ticker_{context_, progress_.interval(), [this] { show_progress(); }};
    std::jthread closer_;
};

asio::awaitable<void> Serving::learn() {
    while (options_.batches == 0 || batches_ < options_.batches) {
        auto batch = co_await server_.sample();
        if (!batch) break;  // closed, and every complete batch was delivered
        throughput_.add(batch->size(), std::chrono::steady_clock::now());
        ++batches_;
        batch->release();
        // A batch that is ready does not suspend: give the other handlers of this thread a turn.
        co_await asio::post(asio::use_awaitable);
    }
    ticker_.stop();
    stop_.disarm();
}

// `close` waits for the connections to end. Meanwhile this thread takes the remaining batches, and
// hears a second Ctrl-C.
void Serving::drain() {
    closer_ = std::jthread{[this] { server_.close(); }};
}

int Serving::run(const Endpoint& where) {
    announce(where);
    asio::co_spawn(context_, learn(), [](const std::exception_ptr& error) {
        if (error) std::rethrow_exception(error);
    });
    context_.run();
    if (closer_.joinable()) closer_.join();
    server_.close();
    progress_.clear();
    if (options_.json) {
        print_json();
    } else {
        print_summary();
    }
    return exit_ok;
}

void Serving::announce(const Endpoint& where) const {
    if (!options_.json) {
        print_line(stdout, "listening on " + where.text());
        return;
    }
    nlohmann::ordered_json event;
    event["event"] = "listening";
    event["address"] = where.address;
    event["port"] = where.port;
    event["spec"] = server_.spec().text();
    // A path may hold any bytes, JSON only holds UTF-8.
    print_line(stdout, event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void Serving::show_progress() {
    const double rate = throughput_.recent_per_second(std::chrono::steady_clock::now());
    progress_.show(counted(throughput_.samples(), "sample") + " in " + counted(batches_, "batch") +
                   ", " + rate_text(rate, bytes(rate)) + ", " +
                   counted(server_.metrics().active_connections, "connection"));
}

void Serving::print_summary() const {
    const double rate = throughput_.per_second();
    const Metrics metrics = server_.metrics();
    print_line(stdout, counted(throughput_.samples(), "sample") + " in " +
                           counted(batches_, "batch") + " from " +
                           counted(metrics.connections_accepted_total, "connection") + ", " +
                           fixed(throughput_.seconds(), 2) + " s");
    print_line(stdout, rate_text(rate, bytes(rate)));
    if (metrics.samples_ready > 0) {
        print_line(stdout, counted(metrics.samples_ready, "sample") +
                               " more came, but no more batches were asked for");
    }
    if (metrics.samples_dropped_at_close > 0) {
        print_line(stdout, counted(metrics.samples_dropped_at_close, "sample") +
                               " did not fill a batch and went no further");
    }
    if (metrics.truncated_samples_total > 0) {
        print_line(stdout, counted(metrics.truncated_samples_total, "sample") +
                               " came only in part, and did not count");
    }
}

void Serving::print_json() const {
    const double rate = throughput_.per_second();
    const Metrics metrics = server_.metrics();
    nlohmann::ordered_json summary;
    summary["event"] = "summary";
    summary["command"] = "serve";
    summary["version"] = RONDO_VERSION;
    summary["samples"] = throughput_.samples();
    summary["batches"] = batches_;
    summary["connections"] = metrics.connections_accepted_total;
    summary["payload_bytes"] = server_.spec().payload_bytes();
    summary["seconds"] = throughput_.seconds();
    summary["samples_per_second"] = rate;
    summary["megabytes_per_second"] = bytes(rate) / 1e6;
    summary["samples_not_taken"] = metrics.samples_ready;
    summary["samples_dropped_at_close"] = metrics.samples_dropped_at_close;
    summary["truncated_samples"] = metrics.truncated_samples_total;
    summary["interrupted"] = stop_.stopping();
    print_line(stdout, summary.dump());
}

/// Whether it is what was asked for that is wrong, not what the machine has.
bool is_usage_error(ListenError::Code code) noexcept {
    return code == ListenError::Code::bad_address || code == ListenError::Code::spec_unsuited ||
           code == ListenError::Code::invalid_option;
}

}  // namespace

int run_serve(const ServeOptions& options) {
    const auto spec = SampleSpec::parse(options.spec);
    if (!spec) {
        complain(spec.error().message());
        return exit_usage;
    }
    raise_file_limit();
    auto server = Server::create(*spec, {.batch_size = options.batch_size,
                                         .num_buffers = options.buffers,
                                         .io_threads = options.io_threads});
    if (!server) {
        complain(server.error().message());
        return server.error().as<InvalidOptions>() != nullptr ? exit_usage : exit_failed;
    }
    const auto where = server->listen({.address = options.address, .port = options.port});
    if (!where) {
        complain(where.error().message());
        return is_usage_error(where.error().code) ? exit_usage : exit_failed;
    }
    return Serving{options, *server}.run(*where);
}

}  // namespace rondo::cli
