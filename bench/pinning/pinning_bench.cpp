// SPDX-License-Identifier: Apache-2.0
// What page-locking is worth: copies of a batch to the device out of pageable memory, out of a ring
// that rondo page-locked, and out of memory that CUDA allocated. Exits with 77 if there is no
// device.
#include "pinning/pin_ring.hpp"
#include "pinning/registration.hpp"
#include "pinning/resolve.hpp"
#include "support/cudart.hpp"
#include <rondo/server.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using rondo::Batch;
using rondo::SampleSpec;
using rondo::Server;
using rondo::detail::LockedRegions;
using rondo::detail::PinApi;
using rondo::detail::Ring;
using rondo::detail::RingLayout;
using rondo::test::Cudart;
using rondo::test::CudaStream;
using Clock = std::chrono::steady_clock;

constexpr int device = 0;
constexpr std::uint64_t batch_size = 64;
constexpr int exit_skipped = 77;

struct Options {
    std::vector<std::uint64_t> mib{1, 16, 256};
    int runs = 21;
};

void must(int code, const char* call) {
    if (code != 0) throw std::runtime_error{std::string{call} + " says " + std::to_string(code)};
}

double milliseconds(Clock::duration duration) {
    return std::chrono::duration<double, std::milli>{duration}.count();
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Where copies go to.
class Target {
public:
    Target(const Cudart& cudart, std::size_t bytes) : cudart_{cudart}, bytes_{bytes} {
        must(cudart_.malloc(&memory_, bytes), "cudaMalloc");
        must(cudart_.stream_create(&stream_, Cudart::non_blocking), "cudaStreamCreateWithFlags");
    }
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;
    ~Target() {
        (void)cudart_.stream_destroy(stream_);
        (void)cudart_.free(memory_);
    }

    struct Times {
        double call;  ///< until cudaMemcpyAsync returned
        double copy;  ///< until the bytes were there
    };
    [[nodiscard]] Times copy_from(const void* memory) const {
        const auto start = Clock::now();
        must(cudart_.memcpy_async(memory_, memory, bytes_, Cudart::host_to_device, stream_),
             "cudaMemcpyAsync");
        const auto called = Clock::now();
        must(cudart_.stream_synchronize(stream_), "cudaStreamSynchronize");
        return {milliseconds(called - start), milliseconds(Clock::now() - start)};
    }

private:
    const Cudart& cudart_;
    std::size_t bytes_;
    void* memory_ = nullptr;
    CudaStream stream_ = nullptr;
};

/// Memory of cudaHostAlloc.
class Allocated {
public:
    Allocated(const Cudart& cudart, std::size_t bytes) : cudart_{cudart} {
        must(cudart_.host_alloc(&memory_, bytes, Cudart::portable), "cudaHostAlloc");
    }
    Allocated(const Allocated&) = delete;
    Allocated& operator=(const Allocated&) = delete;
    ~Allocated() { (void)cudart_.free_host(memory_); }

    [[nodiscard]] void* data() const noexcept { return memory_; }

private:
    const Cudart& cudart_;
    void* memory_ = nullptr;
};

/// The spec of which a batch has so many bytes.
SampleSpec spec_of(std::uint64_t batch_bytes) {
    return SampleSpec::create({{"data", rondo::dtype::uint8, {batch_bytes / batch_size}}}).value();
}

Server server_of(const SampleSpec& spec, bool pinned) {
    auto server = Server::create(spec, {.batch_size = batch_size,
                                        .num_buffers = 1,
                                        .pin_host_memory = pinned,
                                        .pin_device = device,
                                        .prefault = true});
    if (!server) throw std::runtime_error{server.error().message()};
    return *std::move(server);
}

/// A leased batch of random bytes: the kernel would map zeros to one page that is always cached.
Batch filled_batch(Server& server) {
    std::vector<std::byte> bytes(server.spec().payload_bytes() * batch_size);
    std::mt19937_64 random{42};
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    const std::vector<rondo::ArrayBytes> stacked{bytes};
    (void)server.try_insert_many(stacked, batch_size).value();
    return server.try_sample().value().value();
}

/// How long rondo takes to register and verify a ring of one batch, whose memory is resident.
double registration_ms(const std::shared_ptr<PinApi>& api, const SampleSpec& spec) {
    const auto ring =
        Ring::create(RingLayout::create(spec, batch_size, 1).value(), {.pinned = true}).value();
    const Ring::Region& region = ring.regions().front();
    const rondo::detail::LockRegion whole{region.data, region.bytes, region.bytes};
    const auto start = Clock::now();
    const auto locked = LockedRegions::create(api, device, {&whole, 1});
    const auto end = Clock::now();
    if (!locked) must(locked.error().result.code, locked.error().result.call);
    return milliseconds(end - start);
}

double allocation_ms(const Cudart& cudart, std::size_t bytes) {
    const auto start = Clock::now();
    const Allocated allocated{cudart, bytes};
    return milliseconds(Clock::now() - start);
}

struct Source {
    const char* name;
    const void* memory;
    std::vector<double> copy_ms{};
    std::vector<double> call_share{};  ///< of the copy's time
    std::vector<double> locking_ms{};  ///< empty: the memory is pageable
};

void print(const std::array<Source, 3>& sources, std::uint64_t mib) {
    const double pageable_ms = median(sources[0].copy_ms);
    for (const Source& source : sources) {
        const double copy_ms = median(source.copy_ms);
        std::printf("%6llu  %-14s %9.3f %8.1f %10.2f x %9.1f %%",
                    static_cast<unsigned long long>(mib), source.name, copy_ms,
                    static_cast<double>(mib) * 1.048576 / copy_ms, pageable_ms / copy_ms,
                    100 * median(source.call_share));
        if (!source.locking_ms.empty()) std::printf(" %11.3f", median(source.locking_ms));
        std::putchar('\n');
    }
    std::fflush(stdout);
}

void measure(const Cudart& cudart, const std::shared_ptr<PinApi>& api, std::uint64_t mib,
             int runs) {
    const std::uint64_t bytes = mib << 20;
    const SampleSpec spec = spec_of(bytes);
    auto plain = server_of(spec, false);
    auto pinned = server_of(spec, true);
    const Batch pageable_batch = filled_batch(plain);
    const Batch pinned_batch = filled_batch(pinned);
    const auto pageable = pageable_batch.array<std::byte>(0);
    const auto locked = pinned_batch.array<std::byte>(0);
    if (!cudart.locked(&locked.front()) || !cudart.locked(&locked.back()) ||
        cudart.locked(&pageable.front())) {
        throw std::runtime_error{"CUDA does not see the memory as it should be"};
    }
    const Allocated allocated{cudart, bytes};
    std::ranges::copy(pageable, static_cast<std::byte*>(allocated.data()));

    std::array sources{Source{"pageable", pageable.data()}, Source{"rondo, pinned", locked.data()},
                       Source{"cudaHostAlloc", allocated.data()}};
    const Target target{cudart, bytes};
    for (const Source& source : sources) (void)target.copy_from(source.memory);  // warm up
    for (int run = 0; run < runs; ++run) {  // in turns, so that what drifts drifts for all
        for (Source& source : sources) {
            const Target::Times times = target.copy_from(source.memory);
            source.copy_ms.push_back(times.copy);
            source.call_share.push_back(times.call / times.copy);
        }
        sources[1].locking_ms.push_back(registration_ms(api, spec));
        sources[2].locking_ms.push_back(allocation_ms(cudart, bytes));
    }
    print(sources, mib);
}

void print_head(const Cudart& cudart, int runs) {
    int runtime = 0;
    int driver = 0;
    must(cudart.runtime_version(&runtime), "cudaRuntimeGetVersion");
    must(cudart.driver_version(&driver), "cudaDriverGetVersion");
    std::printf(
        "%s, CUDA runtime %s, driver %s, device %d; medians of %d runs\n"
        "call share: of the copy's time, for which cudaMemcpyAsync holds its thread\n"
        "locking: registration of rondo's ring, or allocation by CUDA\n\n"
        "   MiB  memory           copy ms     GB/s  vs pageable  call share  locking ms\n",
        cudart.file.c_str(), rondo::detail::cuda_version_text(runtime).c_str(),
        rondo::detail::cuda_version_text(driver).c_str(), device, runs);
}

int run(const Options& options) {
    const auto cudart = Cudart::open();
    if (!cudart) {
        std::printf("SKIPPED: %s\n", cudart.error().c_str());
        return exit_skipped;
    }
    const auto found = rondo::detail::resolve(rondo::detail::make_pin_request({}, {}, {}).plan());
    if (found.api == nullptr) {
        throw std::runtime_error{
            rondo::PinError{rondo::RuntimeUnavailable{found.attempts, found.forced}}.message()};
    }
    const auto adopted = found.api->adopt(device);
    must(adopted.code, adopted.call);
    print_head(*cudart, options.runs);
    for (const std::uint64_t mib : options.mib) measure(*cudart, found.api, mib, options.runs);
    return 0;
}

}  // namespace

int main(int argc, char* argv[]) {
    CLI::App app{"What page-locking is worth for copies to the device.", "pinning"};
    Options options;
    app.add_option("--mib", options.mib, "Sizes of a batch")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--runs", options.runs, "Of which the median is taken")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        return run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "pinning: %s\n", error.what());
        return 1;
    }
}
