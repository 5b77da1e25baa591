// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pinning/pin_api.hpp"
#include "pinning/search_plan.hpp"
#include <rondo/pin_error.hpp>

#include <memory>
#include <string>
#include <vector>

namespace rondo::detail {

/// What climbing the ladder came to.
struct Resolution {
    /// In the order probed; an empty rung as "(none)". The last is the one taken, if any was.
    std::vector<RuntimeUnavailable::Attempt> attempts;
    std::shared_ptr<PinApi> api;  ///< null: nothing was found
    std::string rung;             ///< of the one taken
    std::string library;          ///< the file of the one taken
    int device_count = 0;
    bool forced = false;  ///< the plan had an override
};

/// Climbs the ladder of the plan: opens each candidate until one has every symbol and sees a
/// device.
///
/// A library, by whatever names, is probed once, on its earliest rung. What is opened stays so:
/// CUDA's libraries start threads and register handlers. Nothing is remembered between calls, so a
/// later one may succeed where this fails.
[[nodiscard]] Resolution resolve(const SearchPlan& plan);

/// "13.0" of 13000.
[[nodiscard]] std::string cuda_version_text(int version);

}  // namespace rondo::detail
