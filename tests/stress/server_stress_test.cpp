// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/stores.hpp"
#include <rondo/server.hpp>

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using rondo::ArrayBytes;
using rondo::Batch;
using rondo::Deadline;
using rondo::InsertError;
using rondo::SampleError;
using rondo::Server;
using rondo::WhenNextLeased;

namespace {

struct Config {
    std::uint64_t batch_size;
    std::uint64_t num_buffers;
    bool short_batch;
    int threads;     ///< producers, and as many consumers, that block
    int operations;  ///< producers, and as many consumers, that live on a thread pool
    std::uint64_t samples;
};

constexpr auto spec = "who:uint64[2],check:uint64[6]";
constexpr std::uint64_t check_words = 6;

std::uint64_t check_word(std::uint64_t producer, std::uint64_t sequence, std::uint64_t word) {
    return (producer * 0x9e3779b97f4a7c15U) ^ (sequence * 0xc2b2ae3d27d4eb4fU) ^ (word << 56U);
}

/// Up to `most` stacked samples of one producer.
class Samples {
public:
    static constexpr std::size_t most = 5;

    Samples(std::uint64_t producer, std::uint64_t first, std::size_t count)
        : who_(2 * count), check_(check_words * count) {
        for (std::size_t i = 0; i < count; ++i) {
            who_[2 * i] = producer;
            who_[2 * i + 1] = first + i;
            for (std::uint64_t w = 0; w < check_words; ++w) {
                check_[check_words * i + w] = check_word(producer, first + i, w);
            }
        }
        arrays_ = {rondo::test::bytes_of(who_), rondo::test::bytes_of(check_)};
    }
    [[nodiscard]] std::span<const ArrayBytes> arrays() const { return arrays_; }

private:
    std::vector<std::uint64_t> who_;
    std::vector<std::uint64_t> check_;
    std::vector<ArrayBytes> arrays_;
};

/// What everybody reports to.
struct Ledger {
    explicit Ledger(const Config& config) : left{static_cast<std::int64_t>(config.samples)} {}

    std::atomic<std::int64_t> left;
    std::atomic<bool> intact{true};
    std::mutex mutex;
    std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>>
        batches;                          ///< with their index
    std::vector<std::uint64_t> inserted;  ///< by producer

    void read(const Batch& batch) {
        const auto who = batch.array<std::uint64_t>("who");
        const auto check = batch.array<std::uint64_t>("check");
        for (std::size_t i = 0; i < batch.size(); ++i) {
            for (std::uint64_t w = 0; w < check_words; ++w) {
                if (check[check_words * i + w] != check_word(who[2 * i], who[2 * i + 1], w)) {
                    intact = false;
                }
            }
        }
        const std::lock_guard lock{mutex};
        batches.emplace_back(batch.index(), std::vector(who.begin(), who.end()));
    }

    /// Again, just before its release: nobody may have written to it.
    void read_again(const Batch& batch) {
        const auto who = batch.array<std::uint64_t>("who");
        const auto check = batch.array<std::uint64_t>("check");
        if (check[0] != check_word(who[0], who[1], 0)) intact = false;
    }

    void taken(std::uint64_t producer, std::uint64_t count) {
        left -= static_cast<std::int64_t>(count);
        const std::lock_guard lock{mutex};
        inserted[producer] += count;
    }
};

using Random = std::mt19937;

std::uint64_t below(Random& random, std::uint64_t n) {
    return std::uniform_int_distribution<std::uint64_t>{0, n - 1}(random);
}

Deadline some_deadline(Random& random) {
    switch (below(random, 4)) {
        case 0:
            return {};
        case 1:
            return Deadline{std::chrono::hours{1}};
        default:
            return Deadline{std::chrono::microseconds{below(random, 300)}};
    }
}

/// Leases that one consumer holds, given back in random order.
class Held {
public:
    Held(Ledger& ledger, std::size_t most) : ledger_{ledger}, most_{most} {}

    void add(Batch batch, Random& random) {
        ledger_.read(batch);
        batches_.push_back(std::move(batch));
        while (batches_.size() > most_ || (!batches_.empty() && below(random, 2) == 0)) {
            const auto i = static_cast<std::ptrdiff_t>(below(random, batches_.size()));
            ledger_.read_again(batches_[static_cast<std::size_t>(i)]);
            batches_.erase(batches_.begin() + i);
        }
    }
    void clear() { batches_.clear(); }
    [[nodiscard]] bool empty() const { return batches_.empty(); }

private:
    Ledger& ledger_;
    std::size_t most_;
    std::vector<Batch> batches_;
};

void produce(Server& server, Ledger& ledger, std::uint64_t producer) {
    Random random{static_cast<unsigned>(producer)};
    std::uint64_t next = 0;
    for (;;) {
        const std::size_t count = 1 + below(random, Samples::most);
        const Samples samples{producer, next, count};
        std::uint64_t done = 0;
        bool closed = false;
        if (below(random, 3) == 0) {
            const auto taken = server.try_insert_many(samples.arrays(), count);
            done = taken ? *taken : taken.error().inserted;
            closed = !taken.has_value();
        } else {
            const auto inserted =
                server.blocking_insert_many(samples.arrays(), count, some_deadline(random));
            done = inserted ? count : inserted.error().inserted;
            closed = !inserted && inserted.error().code == InsertError::Code::closed;
        }
        next += done;
        ledger.taken(producer, done);
        if (closed) return;
        if (done == 0) std::this_thread::yield();
    }
}

void consume(Server& server, Ledger& ledger, std::size_t most_held, unsigned seed) {
    Random random{seed};
    Held held{ledger, most_held};
    for (;;) {
        // Who holds batches must not wait for ever: the others may wait for those.
        auto batch = server.blocking_sample(
            {.deadline = held.empty() ? some_deadline(random)
                                      : Deadline{std::chrono::microseconds{below(random, 300)}},
             .when_next_leased = held.empty() ? WhenNextLeased::wait : WhenNextLeased::by_form});
        if (batch) {
            held.add(*std::move(batch), random);
        } else if (batch.error().code == SampleError::Code::closed) {
            return;
        } else {
            held.clear();
        }
    }
}

/// One operation after the other on a strand; each is cancelled at a random moment, or not.
class Actor : public std::enable_shared_from_this<Actor> {
public:
    Actor(Server& server, Ledger& ledger, asio::thread_pool& pool, std::uint64_t producer)
        : server_{server},
          ledger_{ledger},
          strand_{asio::make_strand(pool)},
          producer_{producer},
          random_{static_cast<unsigned>(producer)} {}

    void go() {
        asio::post(strand_, [self = shared_from_this()] { self->start(); });
    }

private:
    void start() {
        const std::size_t count = 1 + below(random_, Samples::most);
        samples_.emplace(producer_, next_, count);
        server_.async_insert_many(
            samples_->arrays(), count,
            asio::bind_cancellation_slot(
                signal_.slot(),
                asio::bind_executor(strand_,
                                    [self = shared_from_this(),
                                     count](const tl::expected<void, InsertError>& inserted) {
                                        self->ended(inserted, count);
                                    })),
            some_deadline(random_));
        cancel_after(below(random_, 6));
    }

    void cancel_after(std::uint64_t turns) {
        if (turns > 3) return;
        asio::post(strand_, [self = shared_from_this(), turns, operation = operation_] {
            if (operation != self->operation_) return;
            if (turns > 0) return self->cancel_after(turns - 1);
            self->signal_.emit(asio::cancellation_type::terminal);
        });
    }

    void ended(const tl::expected<void, InsertError>& inserted, std::size_t count) {
        ++operation_;
        const std::uint64_t done = inserted ? count : inserted.error().inserted;
        next_ += done;
        ledger_.taken(producer_, done);
        if (!inserted && inserted.error().code == InsertError::Code::closed) return;
        start();
    }

    Server& server_;
    Ledger& ledger_;
    asio::strand<asio::thread_pool::executor_type> strand_;
    asio::cancellation_signal signal_;
    const std::uint64_t producer_;
    Random random_;
    std::uint64_t next_ = 0;
    std::uint64_t operation_ = 0;
    std::optional<Samples> samples_;
};

/// The same for a consumer.
class Learner : public std::enable_shared_from_this<Learner> {
public:
    Learner(Server& server, Ledger& ledger, asio::thread_pool& pool, std::size_t most_held,
            unsigned seed)
        : server_{server},
          strand_{asio::make_strand(pool)},
          random_{seed},
          held_{ledger, most_held} {}

    void go() {
        asio::post(strand_, [self = shared_from_this()] { self->start(); });
    }

private:
    void start() {
        const Deadline deadline = held_.empty()
                                      ? some_deadline(random_)
                                      : Deadline{std::chrono::microseconds{below(random_, 300)}};
        server_.async_sample(
            asio::bind_cancellation_slot(
                signal_.slot(),
                asio::bind_executor(
                    strand_,
                    [self = shared_from_this()](tl::expected<Batch, SampleError> batch) mutable {
                        self->ended(std::move(batch));
                    })),
            {.deadline = deadline,
             .when_next_leased =
                 below(random_, 2) == 0 ? WhenNextLeased::by_form : WhenNextLeased::fail});
        cancel_after(below(random_, 6));
    }

    void cancel_after(std::uint64_t turns) {
        if (turns > 3) return;
        asio::post(strand_, [self = shared_from_this(), turns, operation = operation_] {
            if (operation != self->operation_) return;
            if (turns > 0) return self->cancel_after(turns - 1);
            self->signal_.emit(asio::cancellation_type::total);
        });
    }

    void ended(tl::expected<Batch, SampleError> batch) {
        ++operation_;
        if (batch) {
            held_.add(*std::move(batch), random_);
        } else {
            held_.clear();
            if (batch.error().code == SampleError::Code::closed) return;
        }
        start();
    }

    Server& server_;
    asio::strand<asio::thread_pool::executor_type> strand_;
    asio::cancellation_signal signal_;
    Random random_;
    Held held_;
    std::uint64_t operation_ = 0;
};

/// Every sample that somebody was told is in must come out once, in its producer's order.
void audit(Ledger& ledger, std::uint64_t dropped, std::uint64_t reserved) {
    CHECK(ledger.intact);
    std::sort(ledger.batches.begin(), ledger.batches.end());
    std::vector<std::uint64_t> next(ledger.inserted.size());
    std::uint64_t delivered = 0;
    for (std::size_t i = 0; i < ledger.batches.size(); ++i) {
        const auto& [index, who] = ledger.batches[i];
        REQUIRE(index == i);
        for (std::size_t s = 0; s < who.size(); s += 2) {
            REQUIRE(who[s] < next.size());
            REQUIRE(who[s + 1] == next[who[s]]++);
            ++delivered;
        }
    }
    std::uint64_t inserted = 0;
    for (std::size_t p = 0; p < next.size(); ++p) {
        inserted += ledger.inserted[p];
        CHECK(next[p] <= ledger.inserted[p]);
    }
    CHECK(inserted == delivered + dropped);
    CHECK(inserted == reserved);
}

void run(const Config& config, unsigned seed) {
    auto server = rondo::test::server_of({.batch_size = config.batch_size,
                                          .num_buffers = config.num_buffers,
                                          .deliver_short_batch = config.short_batch},
                                         spec);
    Ledger ledger{config};
    ledger.inserted.resize(static_cast<std::size_t>(config.threads + config.operations));
    const std::size_t most_held = config.num_buffers;
    asio::thread_pool pool{2};
    std::vector<std::thread> threads;
    std::uint64_t producer = 0;
    for (int i = 0; i < config.threads; ++i) {
        threads.emplace_back([&, p = producer++] { produce(server, ledger, p); });
        threads.emplace_back(
            [&, s = seed + static_cast<unsigned>(i)] { consume(server, ledger, most_held, s); });
    }
    for (int i = 0; i < config.operations; ++i) {
        std::make_shared<Actor>(server, ledger, pool, producer++)->go();
        std::make_shared<Learner>(server, ledger, pool, most_held,
                                  seed + 100 + static_cast<unsigned>(i))
            ->go();
    }
    while (ledger.left > 0) std::this_thread::yield();
    server.close();
    for (auto& thread : threads) thread.join();
    pool.join();
    const auto metrics = server.metrics();
    CHECK(metrics.live_leases == 0);
    CHECK(metrics.producers_waiting == 0);
    CHECK(metrics.consumers_waiting == 0);
    audit(ledger, metrics.samples_dropped_at_close, metrics.samples_inserted_total);
}

}  // namespace

TEST_CASE(
    "Stress: through waits, deadlines and cancellations every sample arrives once, in order") {
    const Config configs[] = {
        {1, 1, false, 2, 2, 12'000},  {1, 2, true, 2, 2, 12'000}, {2, 3, false, 1, 3, 40'000},
        {3, 2, true, 2, 1, 40'000},   {8, 1, true, 1, 2, 80'000}, {8, 3, false, 3, 3, 120'000},
        {32, 4, true, 2, 2, 160'000},
    };
    unsigned seed = 1;
    for (const Config& config : configs) {
        CAPTURE(config.batch_size, config.num_buffers, config.short_batch, config.threads,
                config.operations);
        run(config, seed++);
    }
}
