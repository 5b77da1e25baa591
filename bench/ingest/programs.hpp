// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace rondo::bench {

// The programs that run.py starts and measures. None returns before its driver closes stdin, except
// with an error.

struct ServeOptions {
    std::string spec;
    std::uint64_t batch_size = 32;
    std::uint64_t num_buffers = 3;
    bool ages = false;  ///< samples carry the time of their sending
};
/// A rondo server whose learner gives every batch back at once.
int serve(const ServeOptions& options);

struct LoadOptions {
    std::string spec;
    std::uint16_t port = 0;
    std::uint32_t connections = 1;
    std::uint32_t processes = 1;
    double rate =
        0;  ///< samples a second of all connections together, stamped; 0: as fast as can be
};
/// rondo clients, one `send` for each sample.
int load(const LoadOptions& options);

struct RawServeOptions {
    std::uint64_t payload_bytes = 0;
    std::uint64_t batch_size = 32;
    std::uint64_t num_buffers = 3;
    bool vectored = false;
};
/// The least that a receiver can do: bytes from the kernel into memory of the ring's size.
int raw_serve(const RawServeOptions& options);

struct RawLoadOptions {
    std::uint64_t payload_bytes = 0;
    std::uint16_t port = 0;
    std::uint32_t connections = 1;
    std::uint32_t processes = 1;
};
/// Its senders, who wait for nothing but the kernel.
int raw_load(const RawLoadOptions& options);

}  // namespace rondo::bench
