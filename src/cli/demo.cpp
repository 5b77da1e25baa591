// SPDX-License-Identifier: Apache-2.0
#include "cli/demo.hpp"

#include "cli/actor_processes.hpp"
#include "cli/exit_code.hpp"
#include "cli/file_limit.hpp"
#include "cli/format.hpp"
#include "cli/progress.hpp"
#include "cli/signals.hpp"
#include "cli/throughput.hpp"
#include "cli/transition.hpp"
#include "cli/verifier.hpp"
#include <rondo/server.hpp>
#include <rondo/version.hpp>

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include <csignal>
#include <exception>
#include <thread>
#include <unistd.h>
#include <utility>

namespace rondo::cli {
namespace {

/// Everything runs on one thread: the learner, and who looks after the actors' processes. Only the
/// server's own threads, which receive, and its `close`, which waits for them, are elsewhere.
class Demo {
public:
    Demo(const DemoOptions& options, Server& server)
        : options_{options}, server_{server}, verifier_{options.actors, options.samples} {}

    int run(const Endpoint& where);

private:
    tl::expected<void, std::string> start_actors(const Endpoint& where);
    asio::awaitable<void> learn();
    asio::awaitable<void> watch_actors();
    void show_progress();
    void judge();
    void print_summary() const;
    void print_json() const;
    int verdict() const;

    [[nodiscard]] double bytes(double samples) const {
        return samples * static_cast<double>(server_.spec().payload_bytes());
    }

    const DemoOptions& options_;
    Server& server_;
    Verifier verifier_;
    Throughput throughput_;
    std::uint64_t batches_ = 0;
    bool interrupted_ = false;
    std::vector<ActorProcesses::Ended> dead_;

    asio::io_context context_{1};
    asio::signal_set child_ended_{context_, SIGCHLD};
    Progress progress_{options_.json ? stderr : stdout};
    ActorProcesses actors_;
    StopSignals stop_{context_, [this] {
                          interrupted_ = true;
                          actors_.signal_all(SIGTERM);
                      }};
    Ticker ticker_{context_, progress_.interval(), [this] { show_progress(); }};
    std::jthread closer_;
};

asio::awaitable<void> Demo::learn() {
    for (;;) {
        auto batch = co_await server_.sample();
        if (!batch) break;  // closed, and every sample that arrived was delivered
        const auto now = std::chrono::steady_clock::now();
        verifier_.check(*batch, now);
        throughput_.add(batch->size(), now);
        ++batches_;
        batch->release();
        // A batch that is ready does not suspend: give the other handlers of this thread a turn.
        co_await asio::post(asio::use_awaitable);
    }
    ticker_.stop();
    stop_.disarm();
}

// Each actor ends only once its samples are in the ring, so after the last one nothing can come.
asio::awaitable<void> Demo::watch_actors() {
    while (actors_.running() > 0) {
        co_await child_ended_.async_wait(asio::use_awaitable);
        for (const ActorProcesses::Ended& ended : actors_.reap()) {
            if (ended.well() || interrupted_ || !dead_.empty()) continue;
            dead_.push_back(ended);
            actors_.signal_all(SIGTERM);  // what the others still do proves nothing
        }
    }
    closer_ = std::jthread{[this] { server_.close(); }};  // it waits, and this thread must not
}

tl::expected<void, std::string> Demo::start_actors(const Endpoint& where) {
    for (std::uint32_t id = 0; id < options_.actors; ++id) {
        const DemoActorOptions actor{.connect = where.text(),
                                     .id = id,
                                     .samples = options_.samples,
                                     .seed = options_.seed + id,
                                     .parent = ::getpid(),
                                     .sabotage = id == 0 ? options_.sabotage : Sabotage{}};
        if (auto started = actors_.start(arguments_of(actor)); !started) return started;
    }
    return {};
}

int Demo::run(const Endpoint& where) {
    if (!options_.json) {
        print_line(stdout, counted(options_.actors, "actor") + ", each a process that sends " +
                               counted(options_.samples, "CartPole transition") + " to " +
                               where.text() + "; the learner is process " +
                               std::to_string(::getpid()));
    }
    if (const auto started = start_actors(where); !started) {
        complain(started.error());
        return exit_failed;
    }
    const auto rethrow = [](const std::exception_ptr& error) {
        if (error) std::rethrow_exception(error);
    };
    asio::co_spawn(context_, learn(), rethrow);
    asio::co_spawn(context_, watch_actors(), rethrow);
    context_.run();
    if (closer_.joinable()) closer_.join();

    progress_.clear();
    judge();
    if (options_.json) {
        print_json();
    } else {
        print_summary();
    }
    return verdict();
}

void Demo::show_progress() {
    const double rate = throughput_.recent_per_second(std::chrono::steady_clock::now());
    progress_.show(grouped(verifier_.samples()) + " of " +
                   counted(options_.actors * options_.samples, "sample") + ", " +
                   rate_text(rate, bytes(rate)) + ", " + counted(actors_.running(), "actor"));
}

// Once nothing more can come.
void Demo::judge() {
    for (const ActorProcesses::Ended& ended : dead_) {
        const auto id = static_cast<std::uint32_t>(ended.index);
        verifier_.blame("actor " + std::to_string(id) + " " + ended.text() + " after " +
                        grouped(verifier_.samples_of(id)) + " of its " +
                        counted(options_.samples, "sample"));
    }
    if (dead_.empty() && !interrupted_) verifier_.expect_all();
}

void Demo::print_summary() const {
    const double rate = throughput_.per_second();
    const Histogram& latency = verifier_.latency();
    print_line(stdout, counted(verifier_.samples(), "sample") + " in " +
                           counted(batches_, "batch") + ", " +
                           counted(verifier_.episodes(), "episode") + ", " +
                           fixed(throughput_.seconds(), 2) + " s");
    print_line(stdout, rate_text(rate, bytes(rate)));
    print_line(stdout, "from send to lease: p50 " + duration_text(latency.percentile(0.50)) +
                           ", p99 " + duration_text(latency.percentile(0.99)));
    if (verifier_.problem_count() > 0) {
        for (const std::string& problem : verifier_.problems()) {
            print_line(stdout, "contents WRONG: " + problem);
        }
        const std::uint64_t more = verifier_.problem_count() - verifier_.problems().size();
        if (more > 0) print_line(stdout, "contents WRONG: " + counted(more, "more problem"));
    } else if (interrupted_) {
        print_line(stdout, "stopped early: the samples that came are ok");
    } else {
        print_line(stdout, "contents ok");
    }
}

void Demo::print_json() const {
    const double rate = throughput_.per_second();
    const Histogram& latency = verifier_.latency();
    nlohmann::ordered_json summary;
    summary["event"] = "summary";
    summary["command"] = "demo";
    summary["version"] = RONDO_VERSION;
    summary["actors"] = options_.actors;
    summary["samples"] = verifier_.samples();
    summary["batches"] = batches_;
    summary["episodes"] = verifier_.episodes();
    summary["payload_bytes"] = server_.spec().payload_bytes();
    summary["seconds"] = throughput_.seconds();
    summary["samples_per_second"] = rate;
    summary["megabytes_per_second"] = bytes(rate) / 1e6;
    summary["send_to_lease_p50_us"] = latency.percentile(0.50) / 1e3;
    summary["send_to_lease_p99_us"] = latency.percentile(0.99) / 1e3;
    summary["interrupted"] = interrupted_;
    summary["contents"] = verifier_.problem_count() > 0 ? "wrong"
                          : interrupted_                ? "incomplete"
                                                        : "ok";
    summary["problem_count"] = verifier_.problem_count();
    summary["problems"] = verifier_.problems();
    print_line(stdout, summary.dump());
}

int Demo::verdict() const {
    return verifier_.problem_count() > 0 ? exit_failed : exit_ok;
}

}  // namespace

int run_demo(const DemoOptions& options) {
    raise_file_limit();
    auto server = Server::create(transition_spec(), {.batch_size = options.batch_size,
                                                     .num_buffers = options.buffers,
                                                     .deliver_short_batch = true});
    if (!server) {
        complain(server.error().message());
        return server.error().as<InvalidOptions>() != nullptr ? exit_usage : exit_failed;
    }
    const auto where = server->listen({.port = options.port});
    if (!where) {
        complain(where.error().message());
        return exit_failed;
    }
    return Demo{options, *server}.run(*where);
}

}  // namespace rondo::cli
