// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/hand_waiter.hpp"
#include "support/stores.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

using rondo::detail::LeasedNext;
using rondo::detail::LeaseRefusal;
using rondo::detail::Place;
using rondo::detail::Reservation;
using rondo::detail::ReserveRefusal;
using rondo::detail::Store;
using rondo::detail::WaitPoint;
using rondo::test::HandWaiter;

namespace {

struct Shape {
    std::uint64_t batch_size;
    std::uint64_t num_buffers;
    bool short_batch;
};

/// The store as a person would describe it, with no atomics and no wrap-around: every position and
/// every batch is remembered for ever.
class Model {
public:
    explicit Model(Shape shape) : shape_{shape} {}

    [[nodiscard]] std::uint64_t cursor() const { return cursor_; }
    [[nodiscard]] bool closed() const { return closed_; }

    [[nodiscard]] bool open(std::uint64_t batch) const {
        return batch < shape_.num_buffers || released_.count(batch - shape_.num_buffers) > 0;
    }

    [[nodiscard]] std::uint64_t free() const {
        if (closed_) return 0;
        std::uint64_t slots = 0;
        for (std::uint64_t at = cursor_; open(at / shape_.batch_size); ++at) {
            if (at - cursor_ >= shape_.batch_size * shape_.num_buffers) break;
            ++slots;
        }
        return slots;
    }

    std::uint64_t reserve(std::uint64_t wanted) {
        const std::uint64_t rest = shape_.batch_size - cursor_ % shape_.batch_size;
        const std::uint64_t count = std::min({wanted, rest, free()});
        cursor_ += count;
        return count;
    }

    void commit(std::uint64_t first, std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) REQUIRE(committed_.insert(first + i).second);
    }

    /// How many samples of the batch can be leased.
    [[nodiscard]] std::uint64_t ready(std::uint64_t batch) const {
        const std::uint64_t begin = batch * shape_.batch_size;
        std::uint64_t end = begin + shape_.batch_size;
        if (end > cursor_) {
            if (!closed_ || !shape_.short_batch) return 0;
            end = cursor_;
        }
        std::uint64_t count = 0;
        for (std::uint64_t at = begin; at < end; ++at) {
            if (committed_.count(at) == 0) return 0;
            ++count;
        }
        return count;
    }

    [[nodiscard]] std::uint64_t batches_ready() const {
        std::uint64_t count = 0;
        while (ready(next_ + count) > 0) ++count;
        return count;
    }

    /// True if the batch to be leased next lies in a buffer that is leased.
    [[nodiscard]] bool next_held() const { return !open(next_); }

    [[nodiscard]] bool ended() const {
        if (!closed_) return false;
        const std::uint64_t full = cursor_ / shape_.batch_size;
        const bool tail = shape_.short_batch && cursor_ % shape_.batch_size != 0;
        return next_ >= full + (tail ? 1 : 0);
    }

    std::uint64_t lease() { return next_++; }
    [[nodiscard]] std::uint64_t next() const { return next_; }
    void release(std::uint64_t batch) { released_.insert(batch); }
    [[nodiscard]] std::uint64_t released() const { return released_.size(); }
    void close() { closed_ = true; }

private:
    Shape shape_;
    std::uint64_t cursor_ = 0;
    std::uint64_t next_ = 0;
    bool closed_ = false;
    std::set<std::uint64_t> committed_;
    std::set<std::uint64_t> released_;
};

/// Random steps of everybody who may use a store, each compared with the model.
class Run {
public:
    Run(Shape shape, std::uint32_t seed)
        : shape_{shape},
          random_{seed},
          model_{shape},
          store_{rondo::test::store_of(shape.batch_size, shape.num_buffers, shape.short_batch)} {}

    void steps(int count) {
        for (int i = 0; i < count; ++i) {
            step();
            check();
        }
    }

    /// Brings everything to its end: nothing may be lost, and nobody may be left waiting.
    void finish() {
        close();
        check();
        while (!pending_.empty()) commit();
        while (!model_.ended()) {
            lease();
            while (!leased_.empty()) release();
            check();
        }
        lease();  // and is told so
        for (auto* const side : {&producers_, &consumers_}) {
            for (auto& waiter : *side) REQUIRE(waiter.state != State::linked);
        }
    }

private:
    enum class State : std::uint8_t { idle, linked };
    struct Party {
        HandWaiter waiter;
        State state = State::idle;
        bool refused = false;  ///< it waited, and goes back to its turn
    };
    using Side = std::array<Party, 4>;

    struct Pending {
        Reservation slots;
        std::uint64_t first;
    };

    std::uint64_t below(std::uint64_t n) {
        return std::uniform_int_distribution<std::uint64_t>{0, n - 1}(random_);
    }

    void step() {
        const std::uint64_t dice = below(128);
        if (dice < 26) {
            reserve();
        } else if (dice < 46) {
            commit();
        } else if (dice < 58) {
            lease();
        } else if (dice < 70) {
            release();
        } else if (dice < 86) {
            wait(producers_);
        } else if (dice < 98) {
            wait(consumers_);
        } else if (dice < 107) {
            use_permit(producers_);
        } else if (dice < 115) {
            use_permit(consumers_);
        } else if (dice < 121) {
            cancel(producers_);
        } else if (dice < 127) {
            cancel(consumers_);
        } else if (below(5) == 0) {
            close();
        }
    }

    bool reserve() {
        const std::uint64_t wanted = 1 + below(shape_.batch_size + 1);
        const std::uint64_t first = model_.cursor();
        const std::uint64_t expected = model_.reserve(wanted);
        const auto slots = store_->try_reserve(wanted);
        if (expected == 0) {
            REQUIRE_FALSE(slots.has_value());
            REQUIRE(slots.error() ==
                    (model_.closed() ? ReserveRefusal::closed : ReserveRefusal::full));
            return false;
        }
        REQUIRE(slots.has_value());
        REQUIRE(slots->count == expected);
        REQUIRE(slots->first_slot == first % shape_.batch_size);
        REQUIRE(slots->buffer == first / shape_.batch_size % shape_.num_buffers);
        for (std::uint64_t i = 0; i < slots->count; ++i) {
            rondo::test::write_id(*store_, slots->buffer, slots->first_slot + i, first + i);
        }
        pending_.push_back({*slots, first});
        return true;
    }

    void commit() {
        if (pending_.empty()) return;
        const auto at = pending_.begin() + static_cast<std::ptrdiff_t>(below(pending_.size()));
        const Pending pending = *at;
        pending_.erase(at);
        model_.commit(pending.first, pending.slots.count);
        store_->commit(pending.slots);
    }

    bool lease() {
        const std::uint64_t expected = model_.ready(model_.next());
        const bool ended = model_.ended();
        const auto leased = store_->try_lease();
        if (expected == 0) {
            REQUIRE_FALSE(leased.has_value());
            REQUIRE(leased.error() == (ended ? LeaseRefusal::closed : LeaseRefusal::nothing_yet));
            return false;
        }
        REQUIRE(leased.has_value());
        const std::uint64_t batch = model_.lease();
        REQUIRE(leased->batch == batch);
        REQUIRE(leased->buffer == batch % shape_.num_buffers);
        REQUIRE(leased->count == expected);
        verify(batch, expected);
        leased_.push_back(batch);
        counts_.push_back(expected);
        return true;
    }

    void verify(std::uint64_t batch, std::uint64_t count) const {
        for (std::uint64_t i = 0; i < count; ++i) {
            REQUIRE(rondo::test::read_id(*store_, batch % shape_.num_buffers, i) ==
                    batch * shape_.batch_size + i);
        }
    }

    void release() {
        if (leased_.empty()) return;
        const auto i = static_cast<std::ptrdiff_t>(below(leased_.size()));
        const std::uint64_t batch = leased_[static_cast<std::size_t>(i)];
        verify(batch, counts_[static_cast<std::size_t>(i)]);  // nobody wrote to it meanwhile
        leased_.erase(leased_.begin() + i);
        counts_.erase(counts_.begin() + i);
        model_.release(batch);
        store_->release(batch);
    }

    /// Two of the consumers wait for a leased buffer, two refuse. All leases are this thread's.
    [[nodiscard]] LeasedNext rule_of(const Party& party) const {
        if (&party == &consumers_[2]) return LeasedNext::refuse_own;
        return &party == &consumers_[3] ? LeasedNext::refuse : LeasedNext::wait;
    }

    [[nodiscard]] std::shared_ptr<WaitPoint> point_of(const Side& side, const Party& party) const {
        return &side == &producers_ ? store_->room() : store_->batches(rule_of(party));
    }

    /// True if the party need not wait, or must not.
    [[nodiscard]] bool condition(const Side& side, const Party& party) const {
        if (&side == &producers_) return model_.closed() || model_.free() > 0;
        return model_.ended() || model_.ready(model_.next()) > 0 ||
               (rule_of(party) != LeasedNext::wait && model_.next_held());
    }

    void wait(Side& side) {
        Party& party = side[below(side.size())];
        if (party.state == State::linked || party.waiter.permits() > 0) return;
        const Place place = party.refused ? Place::turn : Place::back;
        const bool expected = !condition(side, party);
        REQUIRE(point_of(side, party)->enqueue(party.waiter, place) == expected);
        party.refused = false;
        if (expected) party.state = State::linked;
    }

    void use_permit(Side& side) {
        Party& party = side[below(side.size())];
        if (!party.waiter.use_permit()) return;
        const auto point = point_of(side, party);
        switch (below(4)) {
            case 0:
                return point->pass_on();  // its handler was destroyed, or cancelled
            case 1:
                // A producer that only looked for room. A consumer's permit is never passed so.
                if (&side == &producers_) return point->pass_on_one();
                [[fallthrough]];
            default:
                if (&side == &producers_ ? reserve() : lease()) return;
                party.refused = true;
                if (!condition(side, party)) {
                    REQUIRE(point->enqueue(party.waiter, Place::turn));
                    party.state = State::linked;
                }
        }
    }

    void cancel(Side& side) {
        Party& party = side[below(side.size())];
        const bool linked = party.state == State::linked && party.waiter.permits() == 0;
        REQUIRE(point_of(side, party)->cancel(party.waiter) == linked);
        if (linked) party.state = State::idle;
    }

    void close() {
        model_.close();
        store_->close_input();
    }

    // Also sees who was woken.
    void check() {
        const std::uint64_t linked_producers = count_linked(producers_);
        const std::uint64_t linked_consumers = count_linked(consumers_);
        const auto counts = store_->counts();
        REQUIRE(counts.producers_waiting == linked_producers);
        REQUIRE(counts.consumers_waiting == linked_consumers);
        REQUIRE(counts.samples_reserved == model_.cursor());
        REQUIRE(counts.batches_leased == model_.next());
        REQUIRE(counts.batches_released == model_.released());
        REQUIRE(counts.input_closed == model_.closed());
        REQUIRE(store_->free_slots() == model_.free());
        std::uint64_t ready = 0;
        for (std::uint64_t b = 0; b < model_.batches_ready(); ++b) {
            ready += model_.ready(model_.next() + b);
        }
        REQUIRE(counts.samples_ready == ready);
        REQUIRE(store_->refuses(LeasedNext::refuse) == model_.next_held());
        REQUIRE(store_->refuses(LeasedNext::refuse_own) == model_.next_held());

        // Enough are awake: whoever is left suspended is not needed by what can be had now.
        if (linked_producers > 0) {
            REQUIRE_FALSE(model_.closed());
            REQUIRE(permits(producers_) >= model_.free());
        }
        if (linked_consumers > 0) {
            REQUIRE_FALSE(model_.ended());
            REQUIRE(permits(consumers_) >= model_.batches_ready());
            for (const Party& party : consumers_) {
                const bool impatient = rule_of(party) != LeasedNext::wait;
                REQUIRE_FALSE((party.state == State::linked && impatient && model_.next_held()));
            }
        }
    }

    static std::uint64_t count_linked(Side& side) {
        std::uint64_t count = 0;
        for (Party& party : side) {
            REQUIRE(party.waiter.permits() <= 1);
            if (party.waiter.permits() > 0) party.state = State::idle;
            if (party.state == State::linked) ++count;
        }
        return count;
    }

    static std::uint64_t permits(const Side& side) {
        std::uint64_t count = 0;
        for (const Party& party : side) count += party.waiter.permits();
        return count;
    }

    const Shape shape_;
    std::mt19937 random_;
    Model model_;
    std::shared_ptr<Store> store_;
    std::deque<Pending> pending_;
    std::deque<std::uint64_t> leased_;
    std::deque<std::uint64_t> counts_;
    Side producers_;
    Side consumers_;
};

}  // namespace

TEST_CASE("Store: random steps of everybody agree with a model, and wake enough") {
    for (const std::uint64_t batch_size : {1U, 2U, 3U, 5U}) {
        for (const std::uint64_t num_buffers : {1U, 2U, 3U, 4U}) {
            for (const bool short_batch : {false, true}) {
                for (std::uint32_t seed = 0; seed < 12; ++seed) {
                    CAPTURE(batch_size, num_buffers, short_batch, seed);
                    Run run{{batch_size, num_buffers, short_batch}, seed};
                    run.steps(400);
                    run.finish();
                }
            }
        }
    }
}
