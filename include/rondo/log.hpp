// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace rondo {

enum class LogLevel : std::uint8_t { info, warning };

/// Receives rondo's rare lines: something a person should know and no call returns, e.g. samples
/// that a client destroyed unacknowledged. Called from any thread, one call at a time; it must not
/// call rondo. An exception that it throws is swallowed.
using LogSink = std::function<void(LogLevel, std::string_view line)>;

/// Replaces the sink; the default writes warnings to stderr, prefixed `rondo: `. An empty function
/// silences rondo. Returns once the old sink is no longer running. Thread-safe.
void set_log_sink(LogSink sink);

}  // namespace rondo
