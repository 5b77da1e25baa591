// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_connection.hpp"

#include "ring/copy.hpp"
#include <rondo/detail/log.hpp>

#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

namespace rondo::detail {

using asio::ip::tcp;

TcpConnection::TcpConnection(tcp::socket socket, IoThread& io,
                             std::shared_ptr<const TcpShared> shared)
    : socket_{std::move(socket)},
      handle_{socket_.native_handle()},
      io_{io},
      shared_{std::move(shared)},
      core_{*shared_->core},
      payload_{core_.spec().payload_bytes()},
      counters_{core_.counters(io.index)} {
    close_on_exec(handle_);
    io_.connections.insert(this);
    leaving_ = io_.leaving;  // NOLINT(*-prefer-member-initializer): read once we are in the list
    counters_.connections_accepted.fetch_add(1, std::memory_order_relaxed);
}

TcpConnection::~TcpConnection() {
    io_.connections.erase(this);
    counters_.connections_ended.fetch_add(1, std::memory_order_release);
}

asio::awaitable<void> TcpConnection::run(std::shared_ptr<TcpConnection> self) {
    if (co_await self->greet()) {
        co_await self->read_samples();
        self->side_ = SideBuffer{};  // others need not wait for it until we have left
        co_await self->linger();
    }
    std::error_code ignored;
    self->socket_.close(ignored);  // also ends a wait for acks to be written
}

void TcpConnection::leave() noexcept {
    leaving_ = true;
    if (lingering_) return;  // on its way out, with a limit of its own: its acks are not cut short
    std::error_code ignored;
    socket_.cancel(ignored);
}

// In steps of our own, since `async_write` would not notice a `leave` that comes between two of
// its.
asio::awaitable<bool> TcpConnection::greet() {
    std::error_code error;
    socket_.non_blocking(true, error);
    std::span<const std::byte> rest{shared_->greeting};
    while (!error && !leaving_) {
        const IoResult sent = send(handle_, rest);
        rest = rest.subspan(sent.bytes);
        // A peer that has closed without reading may all the same have sent.
        if (sent.error) acks_lost_ = true;
        if (sent.error || rest.empty()) co_return true;
        if (!sent.would_block) continue;
        co_await socket_.async_wait(tcp::socket::wait_write,
                                    asio::redirect_error(asio::use_awaitable, error));
    }
    co_return false;
}

asio::awaitable<void> TcpConnection::read_samples() {
    int rounds = 0;
    while (!leaving_) {
        round_began_ = Recorder::now();
        const Next next = !held_.empty() && held_.size() >= payload_ ? insert_held()
                          : payload_ <= largest_buffered             ? read_small()
                                                                     : read_large();
        if (next == Next::stop) co_return;  // the acks go out as we linger
        const bool waits = next != Next::read_on && next != Next::yield;
        const bool turn_over = waits || ++rounds == rounds_in_turn;
        if (turn_over) {
            rounds = 0;
            send_acks();
        }
        if (waits) {
            const bool go_on = co_await wait_for(next);
            if (!go_on) co_return;
        } else if (turn_over || next == Next::yield) {
            co_await asio::post(io_.context, asio::use_awaitable);
        }
    }
}

// Every wait of a connection: none holds a slot, and each ends at `leave` or at the closing of the
// store that comes before it.
asio::awaitable<bool> TcpConnection::wait_for(Next what) {
    if (what == Next::wait_room) {
        std::shared_ptr<WaitPoint> room = core_.store().room();
        RoomAttempt attempt{shared_->core};
        co_return co_await async_retry(std::move(room), std::move(attempt), Deadline{},
                                       asio::use_awaitable);
    }
    if (what == Next::wait_side) {
        std::shared_ptr<WaitPoint> pool = shared_->side_buffers;
        SideBuffers::Attempt attempt{shared_->side_buffers};
        side_ = co_await async_retry(std::move(pool), std::move(attempt), Deadline{},
                                     asio::use_awaitable);
        co_return static_cast<bool>(side_);
    }
    std::error_code error;
    co_await socket_.async_wait(tcp::socket::wait_read,
                                asio::redirect_error(asio::use_awaitable, error));
    // Cancelled means leave(), which the loop looks at. Else readable, or broken: reading tells.
    co_return !error;
}

// --- small samples: one receive into the thread's buffer, one reservation for many ----------

TcpConnection::Next TcpConnection::read_small() {
    // Room first: what is received must go somewhere, and a full ring must not fill memory instead.
    // One sample is received even then, so that who waits for room has a sample to put there, and a
    // peer that has finished is noticed.
    Store& store = core_.store();
    if (store.was_closed()) return Next::stop;
    const std::uint64_t free = std::max<std::uint64_t>(1, store.free_slots());

    std::byte* const buffer = io_.buffer.get();
    if (!held_.empty()) std::memcpy(buffer, held_.data(), held_.size());
    const std::size_t wanted = free >= IoThread::buffer_bytes / payload_
                                   ? IoThread::buffer_bytes - held_.size()
                                   : static_cast<std::size_t>(free * payload_) - held_.size();
    const IoResult got = receive(handle_, {buffer + held_.size(), wanted});
    if (got.would_block) return Next::wait_readable;
    if (got.over()) {
        count_truncated(held_.size());
        return Next::stop;
    }
    counters_.bytes_received.fetch_add(got.bytes, std::memory_order_relaxed);
    arrivals_.saw_bytes(round_began_);

    const std::span<const std::byte> received{buffer, held_.size() + got.bytes};
    const wire::PayloadFramer::Split split = shared_->framer.split(received);
    const ServerCore::Taken taken = core_.take_payloads(split.whole.data(), split.samples);
    const auto rest = received.subspan(static_cast<std::size_t>(taken.rows * payload_));
    held_.assign(rest.begin(), rest.end());
    note_committed(taken.rows);
    if (taken.closed) return Next::stop;
    if (held_.size() >= payload_) return Next::read_on;  // others took the room: it waits for more
    if (got.bytes == wanted) return Next::read_on;
    // A short read has most likely emptied the socket. A peer in full flow fills it again while the
    // others are served: one more try costs less than two calls for the reactor. Of a lone sample
    // the reactor knows better.
    return got.bytes >= in_full_flow ? Next::yield : Next::wait_readable;
}

// Samples that were received while other connections took the room that we had seen.
TcpConnection::Next TcpConnection::insert_held() {
    const std::uint64_t samples = held_.size() / payload_;
    const ServerCore::Taken taken = core_.take_payloads(held_.data(), samples);
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(taken.rows * payload_));
    held_.shrink_to_fit();  // it may have been a whole receive; from now on it is a tail
    note_committed(taken.rows);
    if (taken.closed) return Next::stop;
    return taken.rows < samples ? Next::wait_room : Next::read_on;
}

// --- large samples: read from the kernel straight into the reserved slots -------------------

TcpConnection::Next TcpConnection::read_large() {
    const std::uint64_t held = side_.filled().size();
    const std::uint64_t missing = shared_->framer.missing(held);
    std::size_t available = readable_bytes(handle_);
    if (available > 0) arrivals_.saw_bytes(round_began_);
    if (available < missing) {
        if (peer_finished(handle_)) {
            // Look again: what arrived between the two calls came before the end.
            available = readable_bytes(handle_);
            if (available < missing) {
                count_truncated(static_cast<std::size_t>(held) + available);
                return Next::stop;
            }
        } else {
            return read_part(available);
        }
    }
    const std::uint64_t samples = shared_->framer.can_scatter()
                                      ? shared_->framer.scatter(held, available)
                                      : 1;  // more arrays than iovecs: several reads for one
    return read_in_place(samples);
}

// Takes slots and fills them with bytes that are all in the kernel, so nothing waits for a peer.
TcpConnection::Next TcpConnection::read_in_place(std::uint64_t samples) {
    Store& store = core_.store();
    const auto slots = store.try_reserve(samples);
    if (!slots) {
        return slots.error() == ReserveRefusal::closed ? Next::stop : Next::wait_room;
    }
    const std::size_t held = side_.filled().size();
    const auto began = Recorder::now();
    build_iovecs(*slots, held);
    read_exactly(handle_, iovecs_);
    store.recorder().filled(began);
    side_ = SideBuffer{};
    waited_at_mark_ = false;
    store.commit(*slots);
    counters_.bytes_received.fetch_add(slots->count * payload_ - held, std::memory_order_relaxed);
    note_committed(slots->count);
    send_acks();  // at once: the peer has room in its window for few of this size
    return Next::read_on;
}

// One iovec per array and sample, fewer where memory is contiguous. The first `skipped` bytes are
// those of the side buffer: they are copied, and their iovecs shortened.
void TcpConnection::build_iovecs(const Reservation& slots, std::size_t skipped) {
    iovecs_.clear();
    const Ring& ring = core_.store().ring();
    const std::byte* prefix = side_.filled().data();
    for (std::uint64_t sample = 0; sample < slots.count; ++sample) {
        for (std::size_t array = 0; array < ring.arrays().size(); ++array) {
            std::byte* at = ring.slot(array, slots.buffer, slots.first_slot + sample);
            auto bytes = static_cast<std::size_t>(ring.arrays()[array].item_bytes);
            const std::size_t copied = std::min(skipped, bytes);
            if (copied > 0) {
                std::memcpy(at, prefix, copied);
                prefix += copied;
                skipped -= copied;
                at += copied;
                bytes -= copied;
            }
            if (bytes == 0) continue;
            if (!iovecs_.empty()) {
                iovec& last = iovecs_.back();
                if (static_cast<std::byte*>(last.iov_base) + last.iov_len == at) {
                    last.iov_len += bytes;
                    continue;
                }
            }
            iovecs_.push_back({.iov_base = at, .iov_len = bytes});
        }
    }
}

// Less than a sample is there. The mark wakes us when the rest is. If it wakes us earlier, the
// kernel holds no more (it clamps the mark, or is short of memory): then what it has must come out
// for the rest to come in. Only what was `available` comes out, though more may be there by now:
// the end of a sample is always read in place, never into a side buffer.
TcpConnection::Next TcpConnection::read_part(std::size_t available) {
    const auto held = side_.filled().size();
    const auto missing = static_cast<std::size_t>(shared_->framer.missing(held));
    if (!waited_at_mark_) {
        expect_bytes(missing);
        waited_at_mark_ = true;
        return Next::wait_readable;
    }
    if (available == 0) return Next::wait_readable;
    if (!side_) return Next::wait_side;
    const IoResult got = receive(handle_, side_.room().first(available));
    if (got.would_block) return Next::wait_readable;
    if (got.over()) {
        count_truncated(held);
        return Next::stop;
    }
    counters_.bytes_received.fetch_add(got.bytes, std::memory_order_relaxed);
    side_.add(got.bytes);
    waited_at_mark_ = false;
    return Next::read_on;
}

void TcpConnection::expect_bytes(std::size_t bytes) noexcept {
    if (low_water_mark_ == bytes) return;
    set_low_water_mark(handle_, bytes);
    low_water_mark_ = bytes;
}

void TcpConnection::count_truncated(std::size_t held) noexcept {
    if (held == 0) return;
    counters_.truncated_samples.fetch_add(1, std::memory_order_relaxed);
}

// --- acks -----------------------------------------------------------------------------------

void TcpConnection::note_committed(std::uint64_t samples) noexcept {
    counters_.samples_received.fetch_add(samples, std::memory_order_relaxed);
    arrivals_.committed(core_.store().recorder(), samples, !held_.empty());
    acks_pending_ += samples;
    if (samples > 0) core_.store().recorder().round_ended(round_began_);
}

// For small samples at the end of a turn, one call for all of its rounds. A peer whose window is
// used up does not wait for long: it sends nothing, so the turn ends.
void TcpConnection::send_acks() noexcept {
    if (!acks_waiting_) flush_acks();
}

void TcpConnection::flush_acks() noexcept {
    if (acks_lost_ || !socket_.is_open()) acks_pending_ = 0;  // closed: the handle may be another's
    while (acks_pending_ > 0) {
        const IoResult sent = send(handle_, wire::ack_bytes(static_cast<std::size_t>(
                                                std::min<std::uint64_t>(acks_pending_, SIZE_MAX))));
        acks_pending_ -= sent.bytes;
        if (sent.error) {
            acks_lost_ = true;
            acks_pending_ = 0;
        } else if (sent.would_block) {
            if (std::exchange(acks_waiting_, true)) return;
            socket_.async_wait(tcp::socket::wait_write,
                               [self = shared_from_this()](const std::error_code& error) {
                                   self->acks_waiting_ = false;
                                   if (error != asio::error::operation_aborted) self->flush_acks();
                               });
            return;
        }
    }
}

// The last acks go out; then we say that no more will come, and read on until the peer has seen it:
// closing with unread bytes would send a reset, which destroys acks on their way. Bounded in time.
asio::awaitable<void> TcpConnection::linger() {
    lingering_ = true;
    asio::steady_timer timer{io_.context, shared_->linger};
    timer.async_wait([self = shared_from_this()](const std::error_code& error) {
        std::error_code ignored;
        if (!error) self->socket_.close(ignored);
    });
    std::error_code error;
    flush_acks();
    while (!error && acks_pending_ > 0) {
        co_await socket_.async_wait(tcp::socket::wait_write,
                                    asio::redirect_error(asio::use_awaitable, error));
        if (!error) flush_acks();
    }
    if (!error) socket_.shutdown(tcp::socket::shutdown_send, error);
    expect_bytes(1);
    while (!error && socket_.is_open()) {
        const IoResult got = receive(handle_, {io_.buffer.get(), IoThread::buffer_bytes});
        if (got.over()) break;
        if (!got.would_block) {
            co_await asio::post(io_.context, asio::use_awaitable);
            continue;
        }
        co_await socket_.async_wait(tcp::socket::wait_read,
                                    asio::redirect_error(asio::use_awaitable, error));
    }
}

}  // namespace rondo::detail
