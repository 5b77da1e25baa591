// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace rondo {

/// A field of `ServerOptions` that breaks a rule.
struct InvalidOptions {
    std::string field;  ///< e.g. "batch_size"
    std::string value;  ///< what came, as text
    std::string rule;   ///< what was expected, e.g. "must be at least 1"
};

/// The ring's memory cannot be had.
struct RingMemory {
    /// Bytes, page-rounded: batch_size x num_buffers x sample. 2^64 - 1 stands for "more than
    /// that".
    std::uint64_t wanted = 0;
    /// Bytes that can be had: now, or, where `can_ever_fit` is false, even if nothing else ran.
    std::uint64_t available = 0;
    /// False: the machine, its cgroup or a limit of the process is too small even if idle.
    bool can_ever_fit = false;
    /// What bounds `available`, e.g. "cgroup memory.max of /sys/fs/cgroup/job", "MemAvailable".
    std::string limited_by;
};

/// No runtime that can page-lock memory was found.
struct RuntimeUnavailable {
    /// One rung of the ladder, in the order probed: where it looked, and what came of it.
    struct Attempt {
        std::string rung;       ///< e.g. "soname load"
        std::string candidate;  ///< a path or soname; "(none)" for an empty rung
        std::string outcome;    ///< why it was not taken
    };
    std::vector<Attempt> attempts;

    /// `ServerOptions::cudart` or RONDO_CUDART named the only candidate.
    bool overridden = false;
};

/// The runtime refused the device, or a region of the ring. Everything registered before has been
/// undone.
struct Registration {
    std::string symbol;  ///< the runtime's name of the error, e.g. "cudaErrorMemoryAllocation"
    int code = 0;
    std::size_t region = 0;   ///< index among the ring's regions
    std::string array;        ///< the path of the array the region belongs to
    std::uint64_t bytes = 0;  ///< of the region; 0: the device could not even be initialised
    std::string hint;         ///< what usually helps; may be empty

    std::string call{};           ///< what was refused, e.g. "cudaHostRegister"
    std::string library{};        ///< by whom: the file of the runtime or driver
    int device = 0;               ///< on which device
    std::string device_reason{};  ///< and how that was chosen
};

/// `Server::async_create` was cancelled. What had been done by then is undone.
struct CreationCancelled {};

/// Why the ring could not be had as asked. `InvalidOptions` and `RingMemory` come up without
/// pinning too. A value; thread-safety as for a value.
class PinError {
public:
    using Reason = std::variant<InvalidOptions, RingMemory, RuntimeUnavailable, Registration,
                                CreationCancelled>;

    PinError(
        Reason reason) noexcept;  // NOLINT(google-explicit-constructor): a sum type's injection

    [[nodiscard]] const Reason& reason() const noexcept { return reason_; }

    /// The reason of type T, or null.
    template <typename T>
    [[nodiscard]] const T* as() const noexcept {
        return std::get_if<T>(&reason_);
    }

    /// The whole story: what was expected, what came, everything that was tried, what to do.
    [[nodiscard]] std::string message() const;

private:
    Reason reason_;
};

}  // namespace rondo
