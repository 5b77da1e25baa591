// SPDX-License-Identifier: Apache-2.0
#include "cli/histogram.hpp"

#include <algorithm>
#include <cmath>

namespace rondo::cli {

double Histogram::percentile(double fraction) const noexcept {
    if (total_ == 0) return 0.0;
    const double wanted = std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(total_));
    const std::uint64_t rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
    std::uint64_t seen = 0;
    std::size_t index = 0;
    while (index + 1 < counts_.size() && (seen += counts_[index]) < rank) ++index;

    const std::size_t shift = index < 2 * steps ? 0 : index / steps - 1;
    const double lowest =
        std::ldexp(static_cast<double>(index - shift * steps), static_cast<int>(shift));
    const double width = std::ldexp(1.0, static_cast<int>(shift));
    return lowest + (width - 1.0) / 2.0;  // the middle of the integers that share this count
}

}  // namespace rondo::cli
