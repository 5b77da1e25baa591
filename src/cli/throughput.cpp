// SPDX-License-Identifier: Apache-2.0
#include "cli/throughput.hpp"

#include <algorithm>

namespace rondo::cli {
namespace {

double rate(std::uint64_t samples, Throughput::Clock::duration time) noexcept {
    const double seconds = std::chrono::duration<double>{time}.count();
    return seconds > 0.0 ? static_cast<double>(samples) / seconds : 0.0;
}

}  // namespace

void Throughput::start(Clock::time_point now) noexcept {
    started_ = true;
    first_ = last_ = asked_at_ = now;
    before_first_ = asked_samples_ = samples_;
}

void Throughput::add(std::uint64_t samples, Clock::time_point now) noexcept {
    samples_ += samples;
    if (!started_) start(now);
    last_ = std::max(last_, now);
}

double Throughput::seconds() const noexcept {
    return std::chrono::duration<double>{last_ - first_}.count();
}

double Throughput::per_second() const noexcept {
    return rate(samples_ - before_first_, last_ - first_);
}

double Throughput::recent_per_second(Clock::time_point now) noexcept {
    if (!started_) return 0.0;
    const double recent = rate(samples_ - asked_samples_, now - asked_at_);
    asked_at_ = now;
    asked_samples_ = samples_;
    return recent;
}

}  // namespace rondo::cli
