// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/batch.hpp>
#include <rondo/deadline.hpp>
#include <rondo/detail/server_attempts.hpp>
#include <rondo/detail/server_creation.hpp>
#include <rondo/error.hpp>
#include <rondo/metrics.hpp>
#include <rondo/pin_error.hpp>
#include <rondo/sample.hpp>
#include <rondo/spec.hpp>
#include <rondo/tcp_options.hpp>
#include <rondo/transport.hpp>

#include <asio/awaitable.hpp>
#include <tl/expected.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace rondo {

/// How a server's ring is made. The ring takes batch_size x num_buffers x payload bytes.
/// Trivially destructible: it may be a temporary in a `co_await`.
struct ServerOptions {
    std::uint64_t batch_size = 32;  ///< samples in a batch; at least 1

    /// Batches in the ring; at least 1. One fills while others wait or are leased, so 3 is the
    /// least with which neither side waits for the other.
    std::uint64_t num_buffers = 3;

    /// Page-lock the ring with CUDA. `create` then either does so or returns an error. The memory
    /// is also faulted in, and forked children do not get it.
    bool pin_host_memory = false;

    /// On behalf of which device. Unset: the one whose context is current on the calling thread,
    /// else the only one in use by this process, else 0. Any device may use the memory all the
    /// same. Ignored without `pin_host_memory`, as are the next two.
    std::optional<int> pin_device{};

    /// The CUDA library to use, and no other: a path, or a name for the dynamic linker. Empty: what
    /// the environment variable RONDO_CUDART says, else one is searched for. Copied by `create`.
    std::string_view cudart{};

    /// Python site directories in which to look for NVIDIA's wheels. Empty: those of VIRTUAL_ENV,
    /// CONDA_PREFIX, ~/.local and /usr/local. Copied by `create`.
    std::span<const std::string> site_directories{};

    bool huge_pages = true;  ///< ask for transparent huge pages
    bool prefault = false;   ///< touch all memory in `create`, so that no first sample pays for it

    /// After `close`: also deliver the samples that did not fill a batch, as a shorter one.
    bool deliver_short_batch = false;

    /// Threads that serve connections. 0: half of the usable cores, at least 1, at most 4.
    std::uint32_t io_threads = 0;
};
static_assert(std::is_trivially_destructible_v<ServerOptions>,
              "g++ 12 destroys braced aggregates in a co_await twice");

/// How `sample` waits. Trivially destructible: it may be a temporary in a `co_await`.
struct SampleOptions {
    Deadline deadline{};
    WhenNextLeased when_next_leased = WhenNextLeased::by_form;
};

/// A learner's end: the ring, the transports that fill it, and the batches that come out.
///
/// Actors insert samples (here, or through a transport), learners sample batches. Each batch goes
/// to exactly one caller of `sample`, in the order in which batches were filled; samples of one
/// actor keep their order. An inserted sample is in the ring: once `insert` returned, or the ack
/// was sent, it reaches a batch, unless that batch is still short when the server closes (see
/// `ServerOptions::deliver_short_batch`).
///
/// Ownership: movable; the destructor closes. Batches and suspended operations keep the ring alive
/// on their own. Thread-safety: every member may be called from any thread, except move, assignment
/// and destruction.
class Server {
public:
    /// Makes the ring; nothing listens yet, and no thread is left running. With pinning, all of it
    /// happens on a thread of its own that has ended when this returns; it takes some 200 ms if
    /// nobody in this process has initialised CUDA yet.
    /// Errors: `PinError` with `InvalidOptions`, `RingMemory`, and with pinning also
    /// `RuntimeUnavailable` or `Registration`.
    [[nodiscard]] static tl::expected<Server, PinError> create(SampleSpec spec,
                                                               ServerOptions options = {});

    /// As `create`, without holding up the calling thread: a thread of its own does the work, with
    /// or without pinning. Signature: void(tl::expected<Server, PinError>). The handler runs on its
    /// associated executor, never inside this call.
    ///
    /// Completes when: the server is made, or it will not be.
    /// Errors: those of `create`, and `CreationCancelled`. What `create` throws as std::bad_alloc
    /// comes as `RingMemory`.
    /// Cancellation: any type; at once. A call of CUDA cannot be interrupted: the thread finishes
    /// what it is at, then undoes it.
    /// Lifetimes: the options' `cudart` and `site_directories` are copied here. The thread is
    /// joined when the executor's context is destroyed, or earlier; that destruction waits for it.
    template <typename CompletionToken>
    static auto async_create(SampleSpec spec, ServerOptions options, CompletionToken&& token) {
        return detail::async_creation(detail::prepare_creation(std::move(spec), options),
                                      std::forward<CompletionToken>(token));
    }

    Server(Server&&) noexcept;
    Server& operator=(Server&&) noexcept;
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    [[nodiscard]] const SampleSpec& spec() const noexcept;

    /// As given, but for `cudart` and `site_directories`, which are empty.
    [[nodiscard]] const ServerOptions& options() const noexcept;

    // --- transports -------------------------------------------------------------------------

    /// Listens for TCP connections that speak echo/1. The port is bound when this returns; the
    /// result is the real endpoint. May be called several times.
    /// Errors: `ListenError`, a sentence that names the address.
    [[nodiscard]] tl::expected<Endpoint, ListenError> listen(TcpOptions options = {});

    /// Starts a transport of the caller's own, and owns it.
    [[nodiscard]] tl::expected<void, ListenError> add(std::unique_ptr<Transport> transport);

    // --- actors in this process -----------------------------------------------------------------

    /// Copies the sample into the ring; false if the ring is full. Never waits.
    /// Errors: `closed`, `mismatch`.
    [[nodiscard]] tl::expected<bool, InsertError> try_insert(const Sample& sample);
    [[nodiscard]] tl::expected<bool, InsertError> try_insert(std::span<const ArrayBytes> arrays);

    /// Copies up to `count` stacked samples (each array `[count, *shape]`) and returns how many
    /// were taken, from the first on. Never waits.
    [[nodiscard]] tl::expected<std::size_t, InsertError> try_insert_many(
        std::span<const ArrayBytes> stacked, std::size_t count);

    /// Inserts one sample, waiting while the ring is full.
    ///
    /// Completes when: the sample is in the ring, or it will not be.
    /// Errors: `closed`, `timed_out`, `cancelled`, `mismatch`.
    /// Cancellation: any type; the sample is then not in the ring.
    /// Lifetimes: the sample's memory must stay as it is until completion.
    [[nodiscard]] asio::awaitable<tl::expected<void, InsertError>> insert(const Sample& sample,
                                                                          Deadline deadline = {});
    [[nodiscard]] asio::awaitable<tl::expected<void, InsertError>> insert(
        std::span<const ArrayBytes> arrays, Deadline deadline = {});

    /// The same for `count` stacked samples, in as many steps as the ring needs. An error's
    /// `inserted` says how many are in the ring.
    [[nodiscard]] asio::awaitable<tl::expected<void, InsertError>> insert_many(
        std::span<const ArrayBytes> stacked, std::size_t count, Deadline deadline = {});

    /// As `insert` and `insert_many`, with a completion token.
    /// Signature: void(tl::expected<void, InsertError>). The handler runs on its associated
    /// executor, never inside this call.
    template <typename CompletionToken>
    auto async_insert(const Sample& sample, CompletionToken&& token, Deadline deadline = {}) {
        return async_insert_many(sample.arrays(), 1, std::forward<CompletionToken>(token),
                                 deadline);
    }
    template <typename CompletionToken>
    auto async_insert_many(std::span<const ArrayBytes> stacked, std::size_t count,
                           CompletionToken&& token, Deadline deadline = {}) {
        return detail::async_retry(room(), detail::InsertAttempt{core(), stacked, count}, deadline,
                                   std::forward<CompletionToken>(token));
    }

    /// As `insert` and `insert_many`; the calling thread waits. Ends when the server is closed.
    [[nodiscard]] tl::expected<void, InsertError> blocking_insert(const Sample& sample,
                                                                  Deadline deadline = {});
    [[nodiscard]] tl::expected<void, InsertError> blocking_insert_many(
        std::span<const ArrayBytes> stacked, std::size_t count, Deadline deadline = {});

    // --- learners -------------------------------------------------------------------------------

    /// The next batch if one is complete, else nothing. Never waits.
    /// Errors: `closed` once everything was delivered.
    [[nodiscard]] tl::expected<std::optional<Batch>, SampleError> try_sample();

    /// The next batch, waiting for one to be complete.
    ///
    /// Completes when: a batch was leased to the caller, or none will be.
    /// Errors: `closed`, `timed_out`, `cancelled`, `next_leased` (only if asked for: by default
    /// this form waits, and logs a line after 10 s, since another coroutine may release the batch).
    /// Cancellation: any type; no batch is lost, the next caller gets it.
    [[nodiscard]] asio::awaitable<tl::expected<Batch, SampleError>> sample(
        SampleOptions options = {});

    /// As `sample`, with a completion token. Signature: void(tl::expected<Batch, SampleError>). The
    /// batch is leased on the handler's associated executor when the handler runs; never inside
    /// this call.
    template <typename CompletionToken>
    auto async_sample(CompletionToken&& token, SampleOptions options = {}) {
        return detail::async_retry(batches(options, false),
                                   detail::SampleAttempt{core(), rule_of(options, false)},
                                   options.deadline, std::forward<CompletionToken>(token));
    }

    /// Completes when: `try_sample` may have something to say, a batch, the end, or that the next
    /// batch is leased where `options` make that an error (true); or the deadline passed or the
    /// wait was cancelled (false). Nothing is taken: try, and wait again if somebody was faster.
    /// For callers that can lose what a handler is given, such as a task that is cancelled
    /// meanwhile. Signature: void(bool). Cancellation: any type; leaves nothing behind.
    template <typename CompletionToken>
    auto async_wait_for_batch(CompletionToken&& token, SampleOptions options = {}) {
        return detail::async_retry(batches(options, false),
                                   detail::BatchAttempt{core(), rule_of(options, false)},
                                   options.deadline, std::forward<CompletionToken>(token));
    }

    /// As `sample`; the calling thread waits. By default fails with `next_leased` if the next batch
    /// needs a buffer that this thread leased: it would wait for itself. A thread that hands its
    /// batches to others to release asks for `WhenNextLeased::wait`.
    [[nodiscard]] tl::expected<Batch, SampleError> blocking_sample(SampleOptions options = {});

    // --- the whole ------------------------------------------------------------------------------

    /// May be stale at once. Takes the ring's lock for less than a microsecond; with detailed
    /// metrics then adds up the histograms.
    [[nodiscard]] Metrics metrics() const;

    /// Begins `memcpy`, `drain_round` and `queue_dwell` anew, for batches leased from now on and
    /// for `metrics`; returns what they were until then. Each duration that is recorded meanwhile
    /// is in either, never in both. All other metrics stay as they are.
    Histograms reset_histograms();

    /// Ends the input: later inserts fail, transports take their leave and are joined, everybody
    /// who waits for room gets `closed`. Batches that are complete can still be sampled; then
    /// `sample` returns `closed`. Idempotent; returns when the transports have stopped.
    /// Must not be called from a transport's own thread.
    void close();

private:
    friend struct detail::CreateAttempt;
    explicit Server(std::shared_ptr<detail::ServerCore> core) noexcept;

    [[nodiscard]] const std::shared_ptr<detail::ServerCore>& core() const noexcept { return core_; }
    [[nodiscard]] std::shared_ptr<detail::WaitPoint> room() const noexcept;
    [[nodiscard]] std::shared_ptr<detail::WaitPoint> batches(const SampleOptions& options,
                                                             bool blocking) const noexcept;
    [[nodiscard]] static detail::LeasedNext rule_of(const SampleOptions& options,
                                                    bool blocking) noexcept;

    std::shared_ptr<detail::ServerCore> core_;
};

}  // namespace rondo
