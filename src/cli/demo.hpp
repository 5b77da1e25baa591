// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo::cli {

/// Wrongs that an actor can be told to commit, each to the sample with that sequence number, so
/// that a test sees the learner find them.
struct Sabotage {
    std::optional<std::uint64_t> corrupt;    ///< flips a bit after the checksum was made
    std::optional<std::uint64_t> skip;       ///< does not send it
    std::optional<std::uint64_t> duplicate;  ///< sends it twice
    std::optional<std::uint64_t> cheat;      ///< a next_obs that does not follow, checksum and all
};

struct DemoOptions {
    std::uint32_t actors = 4;
    std::uint64_t samples = 1'000'000;  ///< of each actor
    std::uint64_t batch_size = 256;
    std::uint64_t buffers = 4;
    std::uint64_t seed = 1;
    std::uint16_t port = 0;
    bool json = false;
    Sabotage sabotage;  ///< of the first actor
};

/// The learner: starts a process for each actor, and checks every transition that they send.
/// Returns the program's exit code.
[[nodiscard]] int run_demo(const DemoOptions& options);

struct DemoActorOptions {
    std::string connect;
    std::uint32_t id = 0;
    std::uint64_t samples = 1;
    std::uint64_t seed = 1;
    std::optional<std::int32_t> parent;  ///< the process to end with
    Sabotage sabotage;
};

/// One actor: plays CartPole and sends its transitions. Returns the program's exit code.
[[nodiscard]] int run_demo_actor(const DemoActorOptions& options);

/// The arguments with which `rondo` runs as that actor.
[[nodiscard]] std::vector<std::string> arguments_of(const DemoActorOptions& options);

}  // namespace rondo::cli
