// SPDX-License-Identifier: Apache-2.0
#include "spec/check_arrays.hpp"
#include <rondo/trajectory_accumulator.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace rondo {
namespace {

using Code = AccumulatorError::Code;

// The spec that these come from has passed its own limits.
constexpr SpecLimits no_limits{.max_payload_bytes = std::numeric_limits<std::uint64_t>::max(),
                               .max_arrays = std::numeric_limits<std::size_t>::max()};

std::string escaped(std::string_view key) {
    std::string text;
    for (const char c : key) {
        if (c == '~') {
            text += "~0";
        } else if (c == '/') {
            text += "~1";
        } else {
            text += c;
        }
    }
    return text;
}

std::string unescaped(std::string_view text) {
    std::string key;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool escape = text[i] == '~' && i + 1 < text.size();
        key += !escape ? text[i] : text[++i] == '1' ? '/' : '~';
    }
    return key;
}

bool is_single_item(const std::vector<ArraySpec>& arrays) {
    const auto scalar = [](const ArraySpec& array) { return array.shape.empty(); };
    const auto one = [](const ArraySpec& array) { return array.shape.front() == 1; };
    return std::any_of(arrays.begin(), arrays.end(), scalar) ||
           std::all_of(arrays.begin(), arrays.end(), one);
}

std::string leading_dimensions(const std::vector<ArraySpec>& arrays) {
    std::string list;
    for (const ArraySpec& array : arrays) {
        list += (list.empty() ? "" : ", ") + std::to_string(array.shape.front());
    }
    return list;
}

/// The element of that name, or null.
template <typename Named>
auto* find_named(Named& all, std::string_view name) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [name](const auto& known) { return known.name == name; });
    return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::string AccumulatorError::message() const {
    const std::string named = "timescale '" + timescale + "'";
    switch (code) {
        case Code::no_arrays:
            return timescale.empty() ? "expected at least one timescale, got none"
                                     : named + " has no arrays: expected at least one";
        case Code::leading_dimensions:
            return "the arrays of " + named + " have the leading dimensions " + detail +
                   ": expected the same in all of them, which adds then fill row by row; or, for a "
                   "single item, 1 in all of them or a scalar among them";
        case Code::bad_spec:
            return "the timescales together are no sample: " + detail;
        case Code::unknown_timescale:
            return "there is no " + named + ": expected " + detail;
        case Code::full:
            return named + " takes " + std::to_string(capacity) +
                   (capacity == 1 ? " add" : " adds") + " and has had them, so there is no index " +
                   std::to_string(index) + ": build or reset first";
        case Code::mismatch:
            return "add at index " + std::to_string(index) + " of " + named + ": " + detail;
    }
    return "unknown accumulator error";
}

TrajectoryAccumulator::TrajectoryAccumulator(SampleSpec spec, std::vector<Slots> timescales)
    : sample_{std::move(spec)}, timescales_{std::move(timescales)} {}

tl::expected<TrajectoryAccumulator, AccumulatorError> TrajectoryAccumulator::create(
    std::vector<Timescale> timescales) {
    if (timescales.empty()) return tl::unexpected{AccumulatorError{.code = Code::no_arrays}};
    std::vector<ArraySpec> arrays;
    for (Timescale& timescale : timescales) {
        if (timescale.arrays.empty()) {
            return tl::unexpected{
                AccumulatorError{.code = Code::no_arrays, .timescale = timescale.name}};
        }
        const std::string prefix = escaped(timescale.name);
        for (ArraySpec& array : timescale.arrays) {
            array.path = array.path.empty() ? prefix : prefix + '/' + array.path;
            arrays.push_back(std::move(array));
        }
    }
    const auto spec = SampleSpec::create(std::move(arrays));
    if (!spec) {
        return tl::unexpected{
            AccumulatorError{.code = Code::bad_spec, .detail = spec.error().message()}};
    }
    auto accumulator = create(*spec);
    if (accumulator && accumulator->timescales_.size() < timescales.size()) {
        return tl::unexpected{
            AccumulatorError{.code = Code::bad_spec, .detail = "two have the same name"}};
    }
    return accumulator;
}

tl::expected<TrajectoryAccumulator, AccumulatorError> TrajectoryAccumulator::create(
    const SampleSpec& spec) {
    struct Group {
        std::string name;
        std::vector<std::size_t> arrays{};
        std::vector<ArraySpec> items{};
    };
    std::vector<Group> groups;
    for (std::size_t i = 0; i < spec.size(); ++i) {
        ArraySpec item = spec.arrays()[i];
        const std::size_t slash = item.path.find('/');
        std::string name = unescaped(item.path.substr(0, slash));
        item.path = slash == std::string::npos ? "" : item.path.substr(slash + 1);
        Group* group = find_named(groups, name);
        if (group == nullptr) group = &groups.emplace_back(Group{.name = std::move(name)});
        group->arrays.push_back(i);
        group->items.push_back(std::move(item));
    }
    std::vector<Slots> timescales;
    for (Group& group : groups) {
        auto slots =
            make_slots(std::move(group.name), std::move(group.arrays), std::move(group.items));
        if (!slots) return tl::unexpected{std::move(slots).error()};
        timescales.push_back(*std::move(slots));
    }
    return TrajectoryAccumulator{spec, std::move(timescales)};
}

tl::expected<TrajectoryAccumulator::Slots, AccumulatorError> TrajectoryAccumulator::make_slots(
    std::string name, std::vector<std::size_t> arrays, std::vector<ArraySpec> items) {
    std::uint64_t capacity = 1;
    if (!is_single_item(items)) {
        capacity = items.front().shape.front();
        for (const ArraySpec& item : items) {
            if (item.shape.front() == capacity) continue;
            return tl::unexpected{AccumulatorError{.code = Code::leading_dimensions,
                                                   .timescale = std::move(name),
                                                   .detail = leading_dimensions(items)}};
        }
        for (ArraySpec& item : items) item.shape.erase(item.shape.begin());
    }
    auto item = SampleSpec::create(std::move(items), no_limits);
    if (!item) {
        return tl::unexpected{
            AccumulatorError{.code = Code::bad_spec, .detail = item.error().message()}};
    }
    return Slots{.name = std::move(name),
                 .arrays = std::move(arrays),
                 .item = *std::move(item),
                 .capacity = capacity,
                 .added = 0};
}

tl::expected<void, AccumulatorError> TrajectoryAccumulator::add(
    std::string_view timescale, std::span<const ArrayBytes> arrays) {
    Slots* const slots = find_named(timescales_, timescale);
    if (slots == nullptr) return tl::unexpected{unknown(timescale)};
    const auto refused = [slots](Code code, std::string detail) {
        return tl::unexpected{AccumulatorError{.code = code,
                                               .timescale = slots->name,
                                               .capacity = slots->capacity,
                                               .index = slots->added,
                                               .detail = std::move(detail)}};
    };
    if (slots->added == slots->capacity) return refused(Code::full, {});
    if (auto difference = detail::check_arrays(slots->item, arrays, 1, "timescale")) {
        return refused(Code::mismatch, std::move(*difference));
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        if (arrays[i].empty()) continue;
        const std::span<std::byte> whole = sample_.array<std::byte>(slots->arrays[i]);
        // The caller may add a row of the sample that was handed over: the memory may be the same.
        std::memmove(whole.data() + slots->added * arrays[i].size(), arrays[i].data(),
                     arrays[i].size());
    }
    ++slots->added;
    return {};
}

const Sample& TrajectoryAccumulator::build() noexcept {
    reset();
    return sample_;
}

void TrajectoryAccumulator::reset() noexcept {
    for (Slots& slots : timescales_) slots.added = 0;
}

bool TrajectoryAccumulator::full() const noexcept {
    return std::all_of(timescales_.begin(), timescales_.end(),
                       [](const Slots& slots) { return slots.added == slots.capacity; });
}

std::optional<SampleSpec> TrajectoryAccumulator::item_spec(std::string_view timescale) const {
    const Slots* const slots = find_named(timescales_, timescale);
    if (slots == nullptr) return std::nullopt;
    return slots->item;
}

AccumulatorError TrajectoryAccumulator::unknown(std::string_view timescale) const {
    AccumulatorError error{.code = Code::unknown_timescale, .timescale = std::string{timescale}};
    for (const Slots& known : timescales_) {
        error.detail += (error.detail.empty() ? "'" : ", '") + known.name + "'";
    }
    return error;
}

}  // namespace rondo
