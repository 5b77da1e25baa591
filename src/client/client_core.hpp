// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/context_watch.hpp"
#include "client/event.hpp"
#include "client/outgoing.hpp"
#include "wire/framing.hpp"
#include <rondo/deadline.hpp>
#include <rondo/detail/waiter.hpp>
#include <rondo/error.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>

#include <asio/ip/tcp.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace rondo::detail {

class LargeSend;

/// One connection of a client: what its public faces and its suspended operations share.
///
/// A state machine under one mutex. System calls are non-blocking and made inline, on the calling
/// thread and under the mutex, so an operation that need not wait neither allocates nor changes
/// threads. The reactor has two tasks: it watches for acks (and for the peer's death) all the time,
/// and it goes on with what the kernel did not take. The socket object is touched under the mutex
/// only, so any executor will do, a thread pool too.
///
/// Out goes first `out_`, then `large_`. One spec has one payload size, so a client's samples are
/// either all copied or all sent from their own memory, and for the latter `out_` only ever holds
/// the rest of one sample that its sender abandoned.
///
/// Why no wake is lost. Whatever can let a waiter go on (acks, written bytes, a finished or
/// abandoned large sample, closing) happens within a `Session`, under the mutex, and so does every
/// refusal's last check (`enqueue`): a waiter is linked either before the change, and its session's
/// end sees it, or after, and `enqueue` declines. The end of a session wakes as many senders as can
/// send *now*, counted under the mutex, never as many as its own event freed; a permit that is not
/// used comes back through `pass_on`, which counts anew. Waiters are woken after unlocking.
///
/// Lock order: a wait context's mutex, or `ContextWatch`'s, is never taken with ours held.
class ClientCore final : public std::enable_shared_from_this<ClientCore> {
    struct Private {};

public:
    /// Payloads beyond this are not copied.
    static constexpr std::uint64_t max_copied_payload = 8'192;

    /// Takes over a connected socket behind whose greeting nothing has been read.
    [[nodiscard]] static std::shared_ptr<ClientCore> create(asio::ip::tcp::socket socket,
                                                            std::string peer, SampleSpec spec,
                                                            std::uint32_t max_in_flight);

    ClientCore(Private, asio::ip::tcp::socket socket, std::string peer, SampleSpec spec,
               std::uint32_t max_in_flight);
    ClientCore(const ClientCore&) = delete;
    ClientCore& operator=(const ClientCore&) = delete;
    ~ClientCore();

    [[nodiscard]] const SampleSpec& spec() const noexcept { return spec_; }

    /// Nothing, or how the arrays differ from the spec.
    [[nodiscard]] std::optional<SendError> check(std::span<const ArrayBytes> arrays,
                                                 std::size_t count) const;

    /// What to do with the rest of a large sample that the kernel takes only in part.
    enum class Rest : std::uint8_t { wait, copy };

    struct Taken {
        std::size_t rows = 0;                ///< of `large`, those are not counted here
        bool closed = false;                 ///< found closed, after `rows`
        std::shared_ptr<LargeSend> large{};  ///< under way, from the caller's memory
    };

    /// Takes rows `first` to `count` of checked stacked arrays, as many as can go now. A `large` in
    /// the result needs its memory until it has finished or was abandoned.
    [[nodiscard]] Taken take_rows(std::span<const ArrayBytes> arrays, std::size_t first,
                                  std::size_t count, Rest rest);

    /// How a large send ended.
    struct Finished {
        std::size_t rows = 0;  ///< begun; `complete`: and all of it is written
        bool complete = false;
    };
    /// Nothing while it is under way.
    [[nodiscard]] std::optional<Finished> finished(LargeSend& large) noexcept;

    /// Ends it if it is under way: the row that was begun is finished from a copy, the rows behind
    /// it are not sent. Returns how many went out.
    std::size_t abandon(LargeSend& large) noexcept;

    /// An error of a call that took `sent` samples, with what the connection knows.
    [[nodiscard]] SendError error(SendError::Code code, std::uint64_t sent);

    /// Samples taken since connecting: what a `wait` that starts now waits for.
    [[nodiscard]] std::uint64_t sent_total() const noexcept;

    enum class Acked : std::uint8_t { not_yet, yes, never };
    /// Whether `target` samples were acknowledged; looks for acks first.
    [[nodiscard]] Acked acked(std::uint64_t target);

    /// Takes no more samples; closes when all is acknowledged.
    void begin_close();
    /// How many were not acknowledged, once closed.
    [[nodiscard]] std::optional<std::uint64_t> closed();
    /// Closes at once.
    std::uint64_t close_now();
    /// Closes at once, and logs what nobody was told: for destructors.
    void abandon() noexcept;
    /// The socket's execution context is being destroyed.
    void context_gone() noexcept;

    [[nodiscard]] std::uint64_t in_flight() const noexcept;
    [[nodiscard]] bool was_open() const noexcept;
    /// -1 once closed. Without a lock: for a forked child, where nobody would ever unlock it.
    [[nodiscard]] int native_handle() const noexcept { return fd_; }

    /// "A sample may be taken now, or never." They keep the core alive.
    [[nodiscard]] std::shared_ptr<WaitPoint> room() noexcept;
    /// "`target` samples were acknowledged, or it is closed."
    [[nodiscard]] std::shared_ptr<WaitPoint> ack_of(std::uint64_t target);
    /// "It is closed."
    [[nodiscard]] std::shared_ptr<WaitPoint> closing() noexcept;

private:
    friend class LargeSend;

    enum class State : std::uint8_t { open, closing, closed };

    static constexpr std::uint64_t everybody = ~std::uint64_t{0};

    // Holds the lock; its end wakes whoever can go on now.
    class Session {
    public:
        explicit Session(ClientCore& core) noexcept : core_{core}, lock_{core.mutex_} {}
        Session(const Session&) = delete;
        Session& operator=(const Session&) = delete;
        ~Session();

    private:
        ClientCore& core_;
        std::unique_lock<std::mutex> lock_;
    };

    class Room final : public WaitPoint {
    public:
        explicit Room(ClientCore& core) noexcept : core_{core} {}
        bool enqueue(Waiter& waiter, Place place) noexcept override;
        bool cancel(Waiter& waiter) noexcept override;
        void pass_on() noexcept override;

    private:
        ClientCore& core_;
    };

    class Closing final : public WaitPoint {
    public:
        explicit Closing(ClientCore& core) noexcept : core_{core} {}
        bool enqueue(Waiter& waiter, Place place) noexcept override;
        bool cancel(Waiter& waiter) noexcept override;
        void pass_on() noexcept override {}  // it stays closed, and everybody was woken

    private:
        ClientCore& core_;
    };

    class AckWait;

    // All below: with mutex_ held.
    [[nodiscard]] bool copies() const noexcept { return payload_ <= max_copied_payload; }
    [[nodiscard]] std::uint64_t window_room() const noexcept;
    [[nodiscard]] std::uint64_t buffer_rows() const noexcept;
    [[nodiscard]] std::uint64_t sendable_now() const noexcept;
    [[nodiscard]] std::uint64_t make_room() noexcept;

    void take_small(Taken& taken, std::span<const ArrayBytes> arrays, std::size_t first,
                    std::size_t count);
    void take_large(Taken& taken, std::span<const ArrayBytes> arrays, std::size_t first,
                    std::size_t count, Rest rest);
    void park(Taken& taken, Rest rest) noexcept;
    void copy_rest(const Gather& rows) noexcept;

    void write_or_gather() noexcept;
    void post_turn() noexcept;
    void on_turn() noexcept;
    void push_out() noexcept;
    void flush() noexcept;
    void write(Gather& rows) noexcept;
    void count_sent(std::uint64_t samples) noexcept;
    void read_acks() noexcept;
    void count_acked(std::uint64_t samples) noexcept;

    void watch_reads() noexcept;
    void watch_writes() noexcept;
    void on_readable(const std::error_code& error) noexcept;
    void on_writable(const std::error_code& error) noexcept;

    void finish_large() noexcept;
    void lose(int error) noexcept;
    void shut(std::string reason) noexcept;

    const SampleSpec spec_;
    const std::uint64_t payload_;
    const std::uint64_t window_;
    const std::size_t rows_per_write_;  // of large samples
    const std::string peer_;
    std::shared_ptr<ContextWatch> watch_;

    mutable std::mutex mutex_;
    // Empty once closed: it must not outlive its execution context.
    std::optional<asio::ip::tcp::socket> socket_;
    std::atomic<int> fd_;
    State state_ = State::open;
    std::string reason_;     // why it is not open
    bool reported_ = false;  // somebody was told how many samples are unacknowledged
    bool reads_watched_ = false;
    bool writes_watched_ = false;
    bool turn_posted_ = false;
    Deadline::Clock::time_point last_write_{};
    bool changed_ = false;  // in this session: something that senders may wait for

    OutBuffer out_;
    Gather gather_;  // of the call that is running, kept for its memory
    LargeSend* large_ = nullptr;
    wire::AckReader acks_;
    std::uint64_t sent_total_ = 0;
    std::uint64_t acked_total_ = 0;

    WaitList senders_;
    WaitList closers_;
    WaitList fired_;                                    // empty outside sessions
    std::multimap<std::uint64_t, AckWait*> ack_waits_;  // by target

    Room room_{*this};
    Closing closing_{*this};
};

/// Large samples under way from their sender's memory, and the wait for their end.
///
/// Shared by the sending operation, which abandons it before that memory goes, and the wait.
class LargeSend final : public Event {
public:
    LargeSend(std::shared_ptr<ClientCore> core, Gather rows) noexcept
        : Event{core->mutex_}, rows_{std::move(rows)}, core_{std::move(core)} {}

private:
    friend class ClientCore;
    Gather rows_;
    bool under_way_ = true;
    std::shared_ptr<ClientCore> core_;  // for its mutex
};

}  // namespace rondo::detail
