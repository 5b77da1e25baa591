// SPDX-License-Identifier: Apache-2.0
#include "client/client_core.hpp"

#include "client/socket_io.hpp"
#include "spec/check_arrays.hpp"
#include <rondo/detail/log.hpp>

#include <asio/execution/context.hpp>
#include <asio/post.hpp>
#include <asio/query.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <system_error>
#include <utility>

namespace rondo::detail {
namespace {

/// Samples gather up to here, then a sender waits.
constexpr std::size_t max_gathered_bytes = std::size_t{64} * 1024;

/// Writes in a row before the reactor gets its turn, so that one client with a fast peer does not
/// keep its executor's thread for itself.
constexpr int max_inline_writes = 8;

/// A small sample gathers behind a write that is younger than this; else it is written at once. So
/// an actor that computes between its sends, without ever suspending, is not held up.
constexpr std::chrono::microseconds gather_behind{100};

std::uint64_t window_of(std::uint32_t wanted, std::uint64_t payload) noexcept {
    constexpr std::uint64_t bytes = std::uint64_t{1} << 20U;
    return wanted != 0 ? wanted : std::clamp<std::uint64_t>(bytes / payload, 32, 4096);
}

std::string count_of(std::uint64_t samples) {
    return std::to_string(samples) + (samples == 1 ? " sample" : " samples");
}

}  // namespace

/// The wait for one ack, by its number.
class ClientCore::AckWait final : public Event {
public:
    AckWait(std::shared_ptr<ClientCore> core, std::uint64_t target)
        : Event{core->mutex_}, core_{std::move(core)} {
        const std::lock_guard lock{core_->mutex_};
        if (core_->acked_total_ >= target || core_->state_ == State::closed) {
            WaitList nobody;
            fire(nobody);
        } else {
            place_ = core_->ack_waits_.emplace(target, this);
        }
    }
    AckWait(const AckWait&) = delete;
    AckWait& operator=(const AckWait&) = delete;
    ~AckWait() {
        const std::lock_guard lock{core_->mutex_};
        if (place_) core_->ack_waits_.erase(*place_);
    }

    void fire_and_leave(WaitList& woken) noexcept {
        fire(woken);
        core_->ack_waits_.erase(*place_);
        place_.reset();
    }

private:
    std::shared_ptr<ClientCore> core_;
    std::optional<std::multimap<std::uint64_t, AckWait*>::iterator> place_;
};

std::shared_ptr<ClientCore> ClientCore::create(asio::ip::tcp::socket socket, std::string peer,
                                               SampleSpec spec, std::uint32_t max_in_flight) {
    auto core = std::make_shared<ClientCore>(Private{}, std::move(socket), std::move(peer),
                                             std::move(spec), max_in_flight);
    if (!core->watch_->add(core)) core->context_gone();
    const Session session{*core};
    core->watch_reads();
    return core;
}

ClientCore::ClientCore(Private /*unused*/, asio::ip::tcp::socket socket, std::string peer,
                       SampleSpec spec, std::uint32_t max_in_flight)
    : spec_{std::move(spec)},
      payload_{spec_.payload_bytes()},
      window_{window_of(max_in_flight, payload_)},
      rows_per_write_{std::max<std::size_t>(1, IOV_MAX / spec_.size())},
      peer_{std::move(peer)},
      watch_{ContextWatch::of(asio::query(socket.get_executor(), asio::execution::context))},
      socket_{std::move(socket)},
      fd_{socket_->native_handle()} {}

ClientCore::~ClientCore() {
    watch_->remove(*this);
}

std::optional<SendError> ClientCore::check(std::span<const ArrayBytes> arrays,
                                           std::size_t count) const {
    auto difference = check_arrays(spec_, arrays, count, "client");
    if (!difference) return std::nullopt;
    return SendError{SendError::Code::mismatch, 0, in_flight(), std::move(*difference)};
}

// --- sessions and waits ---------------------------------------------------------------------

ClientCore::Session::~Session() {
    ClientCore& core = core_;
    const bool drained = core.out_.empty() && core.large_ == nullptr && core.acks_.in_flight() == 0;
    if (core.state_ == State::closing && drained) core.shut(core.reason_);

    auto senders = core.senders_.take(core.changed_ ? core.sendable_now() : 0);
    auto closers = core.closers_.take(core.state_ == State::closed ? everybody : 0);
    auto fired = core.fired_.take(everybody);
    core.changed_ = false;
    lock_.unlock();
    // From here on the core may be gone: a waiter that is woken may have been its last owner.
    senders.wake_all();
    closers.wake_all();
    fired.wake_all();
}

bool ClientCore::Room::enqueue(Waiter& waiter, Place place) noexcept {
    const std::lock_guard lock{core_.mutex_};
    if (core_.sendable_now() > 0) return false;
    core_.senders_.link(waiter, place);
    return true;
}

bool ClientCore::Room::cancel(Waiter& waiter) noexcept {
    const std::lock_guard lock{core_.mutex_};
    return core_.senders_.unlink(waiter);
}

void ClientCore::Room::pass_on() noexcept {
    const Session session{core_};
    core_.changed_ = true;
}

bool ClientCore::Closing::enqueue(Waiter& waiter, Place place) noexcept {
    const std::lock_guard lock{core_.mutex_};
    if (core_.state_ == State::closed) return false;
    core_.closers_.link(waiter, place);
    return true;
}

bool ClientCore::Closing::cancel(Waiter& waiter) noexcept {
    const std::lock_guard lock{core_.mutex_};
    return core_.closers_.unlink(waiter);
}

std::shared_ptr<WaitPoint> ClientCore::room() noexcept {
    return {shared_from_this(), &room_};
}

std::shared_ptr<WaitPoint> ClientCore::closing() noexcept {
    return {shared_from_this(), &closing_};
}

std::shared_ptr<WaitPoint> ClientCore::ack_of(std::uint64_t target) {
    return std::make_shared<AckWait>(shared_from_this(), target);
}

// --- taking samples -------------------------------------------------------------------------

std::uint64_t ClientCore::window_room() const noexcept {
    const std::uint64_t in_flight = acks_.in_flight();
    return in_flight < window_ ? window_ - in_flight : 0;
}

std::uint64_t ClientCore::buffer_rows() const noexcept {
    if (!copies()) return out_.empty() && large_ == nullptr ? rows_per_write_ : 0;
    const std::size_t gathered = out_.size();
    return gathered < max_gathered_bytes ? (max_gathered_bytes - gathered) / payload_ : 0;
}

std::uint64_t ClientCore::sendable_now() const noexcept {
    if (state_ != State::open) return everybody;
    const std::uint64_t rows = std::min(window_room(), buffer_rows());
    // Large samples go one by one: the next sender gets its turn when the one before has finished.
    return copies() ? rows : std::min<std::uint64_t>(rows, 1);
}

// What can be taken, after trying inline for more: the reactor may have to wait for this very
// thread. Agrees with `sendable_now`, or a refused sender would be told to try again for ever.
std::uint64_t ClientCore::make_room() noexcept {
    if (state_ == State::open && window_room() == 0) {
        push_out();
        read_acks();
    }
    if (state_ == State::open && buffer_rows() == 0) flush();
    return state_ == State::open ? std::min(window_room(), buffer_rows()) : 0;
}

ClientCore::Taken ClientCore::take_rows(std::span<const ArrayBytes> arrays, std::size_t first,
                                        std::size_t count, Rest rest) {
    Taken taken;
    const Session session{*this};
    if (copies()) {
        take_small(taken, arrays, first, count);
    } else {
        take_large(taken, arrays, first, count, rest);
    }
    taken.closed = state_ != State::open;
    return taken;
}

void ClientCore::take_small(Taken& taken, std::span<const ArrayBytes> arrays, std::size_t first,
                            std::size_t count) {
    while (first + taken.rows < count) {
        const std::uint64_t rows = std::min<std::uint64_t>(make_room(), count - first - taken.rows);
        if (rows == 0) return;
        out_.reserve(rows * payload_);  // throws, if at all, before anything is taken
        for (std::uint64_t i = 0; i < rows; ++i) {
            append_row(out_, spec_, arrays, first + taken.rows);
            count_sent(1);
            ++taken.rows;
        }
        if (count == 1) {
            write_or_gather();
        } else {
            push_out();  // they have gathered already
        }
    }
}

// A write costs more than a thousand copies of a small sample. One that comes alone is written at
// once; those that follow closely gather until the executor's next turn, or until they fill a
// write. They are never stranded: while something has gathered, a turn is posted or a write is
// watched.
void ClientCore::write_or_gather() noexcept {
    if (writes_watched_) return;  // the kernel takes no more: asking it again would be for nothing
    const bool fills_a_write = buffer_rows() == 0;
    if (!fills_a_write && Deadline::Clock::now() - last_write_ < gather_behind) return post_turn();
    flush();
}

void ClientCore::post_turn() noexcept {
    if (turn_posted_) return;
    try {
        asio::post(socket_->get_executor(), [self = shared_from_this()] { self->on_turn(); });
        turn_posted_ = true;
    } catch (...) {
        flush();  // no memory for company
    }
}

void ClientCore::on_turn() noexcept {
    const Session session{*this};
    turn_posted_ = false;
    push_out();
}

// Writes what has gathered, before a wait for what it will bring about.
void ClientCore::push_out() noexcept {
    if (state_ != State::closed && !writes_watched_) flush();
}

void ClientCore::take_large(Taken& taken, std::span<const ArrayBytes> arrays, std::size_t first,
                            std::size_t count, Rest rest) {
    while (first + taken.rows < count) {
        const std::uint64_t rows = std::min<std::uint64_t>(make_room(), count - first - taken.rows);
        if (rows == 0) return;
        gather_.assign(spec_, arrays, first + taken.rows, rows);
        write(gather_);
        if (!gather_.done() && state_ == State::open) return park(taken, rest);
        taken.rows += gather_.rows_begun();
        changed_ = true;  // the next sender's turn
        if (state_ != State::open) return;
    }
}

// The kernel took `gather_` only in part, perhaps nothing of it.
void ClientCore::park(Taken& taken, Rest rest) noexcept {
    if (rest == Rest::copy) {
        taken.rows += gather_.rows_begun();
        return copy_rest(gather_);
    }
    try {
        taken.large = std::make_shared<LargeSend>(shared_from_this(), std::move(gather_));
    } catch (const std::bad_alloc&) {
        return shut("there was no memory for a sample under way");
    }
    large_ = taken.large.get();
    watch_writes();
}

void ClientCore::copy_rest(const Gather& rows) noexcept {
    try {
        rows.copy_rest_of_row(out_);
    } catch (const std::bad_alloc&) {
        return shut("there was no memory for the rest of a sample");
    }
    if (!out_.empty()) watch_writes();
}

std::optional<ClientCore::Finished> ClientCore::finished(LargeSend& large) noexcept {
    const std::lock_guard lock{mutex_};
    if (large.under_way_) return std::nullopt;
    return Finished{large.rows_.rows_begun(), large.rows_.done()};
}

std::size_t ClientCore::abandon(LargeSend& large) noexcept {
    const Session session{*this};
    if (large.under_way_) {
        finish_large();
        copy_rest(large.rows_);
    }
    return large.rows_.rows_begun();
}

void ClientCore::finish_large() noexcept {
    large_->under_way_ = false;
    large_->fire(fired_);
    large_ = nullptr;
    changed_ = true;
}

// --- the socket -----------------------------------------------------------------------------

void ClientCore::flush() noexcept {
    while (!out_.empty()) {
        const CallResult result = send_some(fd_, out_.bytes());
        if (result.would_block()) return watch_writes();
        if (result.error != 0) return lose(result.error);
        out_.consume(result.bytes);
        last_write_ = Deadline::Clock::now();
        changed_ = true;
    }
}

void ClientCore::write(Gather& rows) noexcept {
    for (int i = 0; i < max_inline_writes && !rows.done(); ++i) {
        const CallResult result = send_some(fd_, rows.left());
        if (result.would_block()) return;
        if (result.error != 0) return lose(result.error);
        const std::uint64_t before = rows.rows_begun();
        rows.advance(result.bytes);
        // After the write, for only now we know; no ack can be read before, since we hold the lock.
        count_sent(rows.rows_begun() - before);
    }
}

void ClientCore::count_sent(std::uint64_t samples) noexcept {
    acks_.sent(samples);
    sent_total_ += samples;
}

void ClientCore::read_acks() noexcept {
    std::array<std::byte, 4096> bytes;  // NOLINT(*-member-init): the kernel fills it
    while (state_ != State::closed) {
        const CallResult result = receive_some(fd_, bytes);
        if (result.would_block()) return;
        if (result.error != 0)
            return shut(peer_ + ": " + std::generic_category().message(result.error));
        if (result.bytes == 0) return shut("the server at " + peer_ + " closed the connection");
        const auto acks = acks_.feed(std::span{bytes}.first(result.bytes));
        count_acked(acks.samples);
        if (acks.error) return shut(peer_ + ": " + acks.error->message());
        if (result.bytes < bytes.size()) return;
    }
}

void ClientCore::count_acked(std::uint64_t samples) noexcept {
    if (samples == 0) return;
    acked_total_ += samples;
    changed_ = true;
    while (!ack_waits_.empty() && ack_waits_.begin()->first <= acked_total_) {
        ack_waits_.begin()->second->fire_and_leave(fired_);
    }
}

// Always while open, so that the peer's death is noticed although nobody calls.
void ClientCore::watch_reads() noexcept {
    if (state_ == State::closed || reads_watched_) return;
    try {
        socket_->async_wait(asio::socket_base::wait_read,
                            [self = shared_from_this()](const std::error_code& error) {
                                self->on_readable(error);
                            });
        reads_watched_ = true;
    } catch (...) {
        shut("there was no memory to wait for the connection");
    }
}

void ClientCore::watch_writes() noexcept {
    if (state_ == State::closed || writes_watched_) return;
    try {
        socket_->async_wait(asio::socket_base::wait_write,
                            [self = shared_from_this()](const std::error_code& error) {
                                self->on_writable(error);
                            });
        writes_watched_ = true;
    } catch (...) {
        shut("there was no memory to wait for the connection");
    }
}

void ClientCore::on_readable(const std::error_code& error) noexcept {
    const Session session{*this};
    reads_watched_ = false;
    if (state_ == State::closed) return;
    if (error) return shut(peer_ + ": " + error.message());
    read_acks();
    watch_reads();
}

void ClientCore::on_writable(const std::error_code& error) noexcept {
    const Session session{*this};
    writes_watched_ = false;
    if (state_ == State::closed) return;
    if (error) return shut(peer_ + ": " + error.message());
    flush();
    if (large_ == nullptr || !out_.empty()) return;
    write(large_->rows_);
    if (large_ == nullptr) return;  // the connection is lost
    if (large_->rows_.done()) {
        finish_large();
    } else {
        watch_writes();
    }
}

// --- the end --------------------------------------------------------------------------------

// A write failed. Acks that came before the peer died still count.
void ClientCore::lose(int error) noexcept {
    read_acks();
    if (state_ != State::closed) shut(peer_ + ": " + std::generic_category().message(error));
}

void ClientCore::shut(std::string reason) noexcept {
    state_ = State::closed;
    reason_ = std::move(reason);
    changed_ = true;
    if (large_ != nullptr) finish_large();
    while (!ack_waits_.empty()) ack_waits_.begin()->second->fire_and_leave(fired_);
    out_.clear();
    fd_ = -1;
    std::error_code ignored;
    socket_->shutdown(asio::socket_base::shutdown_both, ignored);
    socket_.reset();
}

SendError ClientCore::error(SendError::Code code, std::uint64_t sent) {
    const std::lock_guard lock{mutex_};
    SendError error{code, sent, acks_.in_flight(), {}};
    if (code == SendError::Code::connection_closed) {
        error.detail = reason_;
        reported_ = reported_ || state_ == State::closed;
    }
    return error;
}

std::uint64_t ClientCore::sent_total() const noexcept {
    const std::lock_guard lock{mutex_};
    return sent_total_;
}

ClientCore::Acked ClientCore::acked(std::uint64_t target) {
    const Session session{*this};
    if (acked_total_ < target) {
        push_out();
        read_acks();
    }
    if (acked_total_ >= target) return Acked::yes;
    return state_ == State::closed ? Acked::never : Acked::not_yet;
}

void ClientCore::begin_close() {
    const Session session{*this};
    if (state_ != State::open) return;
    state_ = State::closing;
    reason_ = "the client was closed";
    changed_ = true;
    push_out();
    read_acks();
}

std::optional<std::uint64_t> ClientCore::closed() {
    const std::lock_guard lock{mutex_};
    if (state_ != State::closed) return std::nullopt;
    reported_ = true;
    return acks_.in_flight();
}

std::uint64_t ClientCore::close_now() {
    const Session session{*this};
    push_out();
    read_acks();
    if (state_ != State::closed) shut("the client was closed");
    reported_ = true;
    return acks_.in_flight();
}

void ClientCore::abandon() noexcept {
    std::uint64_t untold = 0;
    {
        const Session session{*this};
        push_out();  // as far as it goes now
        // What is read now counts; and with unread bytes the kernel would reset the connection,
        // and the server might lose samples that it has not read yet.
        read_acks();
        if (state_ != State::closed) shut("the client was destroyed");
        if (!std::exchange(reported_, true)) untold = acks_.in_flight();
    }
    if (untold == 0) return;
    log_warning("a client of " + peer_ + " was destroyed with " + count_of(untold) +
                " not acknowledged: close() it first");
}

void ClientCore::context_gone() noexcept {
    const Session session{*this};
    if (state_ != State::closed) shut("the client's execution context was destroyed");
}

std::uint64_t ClientCore::in_flight() const noexcept {
    const std::lock_guard lock{mutex_};
    return acks_.in_flight();
}

bool ClientCore::was_open() const noexcept {
    const std::lock_guard lock{mutex_};
    return state_ == State::open;
}

}  // namespace rondo::detail
