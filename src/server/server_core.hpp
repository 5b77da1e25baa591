// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/store.hpp"
#include <rondo/batch.hpp>
#include <rondo/error.hpp>
#include <rondo/metrics.hpp>
#include <rondo/sample.hpp>
#include <rondo/server.hpp>
#include <rondo/spec.hpp>
#include <rondo/transport.hpp>

#include <tl/expected.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace rondo::detail {

class SideBuffers;

/// What transports count. Each I/O thread writes its own line, so that counting costs no traffic
/// between cores; `ServerCore::metrics` adds them up.
struct alignas(64) TransportCounters {
    std::atomic<std::uint64_t> connections_accepted{0};
    std::atomic<std::uint64_t> connections_ended{0};
    std::atomic<std::uint64_t> bytes_received{0};
    std::atomic<std::uint64_t> samples_received{0};
    std::atomic<std::uint64_t> truncated_samples{0};
};

/// What a server, its transports, its batches' origin and its suspended operations share.
class ServerCore : public std::enable_shared_from_this<ServerCore> {
public:
    ServerCore(SampleSpec spec, ServerOptions options, std::shared_ptr<Store> store);
    ServerCore(const ServerCore&) = delete;
    ServerCore& operator=(const ServerCore&) = delete;
    ~ServerCore();

    [[nodiscard]] const SampleSpec& spec() const noexcept { return spec_; }
    [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }
    [[nodiscard]] Store& store() noexcept { return *store_; }

    /// Nothing, or the sentence that says how stacked arrays differ from the spec.
    [[nodiscard]] std::optional<InsertError> check(std::span<const ArrayBytes> arrays,
                                                   std::size_t count) const;

    /// How many samples went into the ring, and whether the input was found closed after them.
    struct Taken {
        std::size_t rows = 0;
        bool closed = false;
    };

    /// Copies rows `first` to `count` of checked stacked arrays into the ring, as many as there is
    /// room for.
    [[nodiscard]] Taken take_rows(std::span<const ArrayBytes> arrays, std::size_t first,
                                  std::size_t count) noexcept;

    /// The same for whole payloads, back to back.
    [[nodiscard]] Taken take_payloads(const std::byte* payloads, std::size_t count) noexcept;

    /// Counts what a user's transport inserted in a call that began then; `closed` if that was
    /// nothing.
    [[nodiscard]] tl::expected<std::size_t, InsertError> receive(const Taken& taken,
                                                                 Recorder::Instant began);

    /// Leases the next batch; nothing if none is ready.
    [[nodiscard]] tl::expected<std::optional<Batch>, SampleError> try_sample();

    [[nodiscard]] Metrics metrics() const;

    /// The counters of I/O thread `index`.
    [[nodiscard]] TransportCounters& counters(std::size_t index) noexcept {
        return counters_[index % counters_.size()];
    }
    /// Lets `metrics` count the bytes of a transport's side buffers. Called from `start`.
    void watch_side_buffers(std::weak_ptr<const SideBuffers> buffers);

    [[nodiscard]] tl::expected<void, ListenError> add(std::unique_ptr<Transport> transport);
    void close();

private:
    struct Connections {
        std::uint64_t ended = 0;
        std::uint64_t accepted = 0;
    };
    [[nodiscard]] Connections count_connections() const noexcept;
    [[nodiscard]] SampleInfo info_at_lease(const Leased& leased) const;

    const SampleSpec spec_;
    const ServerOptions options_;
    const std::shared_ptr<Store> store_;
    std::array<TransportCounters, 4> counters_;

    mutable std::mutex side_buffers_mutex_;
    std::vector<std::weak_ptr<const SideBuffers>> side_buffers_;

    std::mutex transports_mutex_;  // also serialises close()
    std::vector<std::unique_ptr<Transport>> transports_;
    bool closed_ = false;
};

/// Lets rondo's own transports past the public face of `Ingress`.
struct IngressAccess {
    static Ingress make(std::shared_ptr<ServerCore> core) { return Ingress{std::move(core)}; }
    static const std::shared_ptr<ServerCore>& core(const Ingress& ingress) { return ingress.core_; }
};

}  // namespace rondo::detail
