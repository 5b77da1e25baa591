// SPDX-License-Identifier: Apache-2.0
#include <rondo/detail/log.hpp>
#include <rondo/log.hpp>

#include <cstdio>
#include <mutex>
#include <utility>

namespace rondo {
namespace {

void write_to_stderr(LogLevel level, std::string_view line) {
    if (level != LogLevel::warning) return;
    std::fprintf(stderr, "rondo: %.*s\n", static_cast<int>(line.size()), line.data());
}

struct Log {
    std::mutex mutex;
    LogSink sink = write_to_stderr;
};

Log& log() {
    // Never destroyed: threads may log while the process exits.
    static auto* const instance = new Log;
    return *instance;
}

void emit(LogLevel level, std::string_view line) noexcept {
    try {
        const std::lock_guard lock{log().mutex};
        if (log().sink) log().sink(level, line);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a log line is never worth a failure
    }
}

}  // namespace

void set_log_sink(LogSink sink) {
    {
        const std::lock_guard lock{log().mutex};
        std::swap(log().sink, sink);
    }
    // The old sink is destroyed here, outside the lock: its destructor may do anything.
}

namespace detail {

void log_warning(std::string_view line) noexcept {
    emit(LogLevel::warning, line);
}
void log_info(std::string_view line) noexcept {
    emit(LogLevel::info, line);
}

}  // namespace detail
}  // namespace rondo
