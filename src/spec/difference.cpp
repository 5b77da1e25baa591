// SPDX-License-Identifier: Apache-2.0
#include "spec/text.hpp"
#include <rondo/spec.hpp>

#include <unordered_map>
#include <utility>

namespace rondo {
namespace {

constexpr std::size_t max_lines = 20;

/// One side of the comparison.
class Side {
public:
    Side(const SampleSpec& spec, std::string_view name) : spec_{spec}, name_{name} {
        index_.reserve(spec.size());
        for (std::size_t i = 0; i < spec.size(); ++i) index_.emplace(spec.arrays()[i].path, i);
    }

    std::string_view name() const noexcept { return name_; }
    std::span<const ArraySpec> arrays() const noexcept { return spec_.arrays(); }

    std::optional<std::size_t> find(std::string_view path) const {
        const auto found = index_.find(path);
        if (found == index_.end()) return std::nullopt;
        return found->second;
    }

    std::string has(const ArraySpec& array) const {
        return std::string{name_} + " has " + clipped(type_text(array));
    }

    std::string lacks() const { return std::string{name_} + " has no such array"; }

private:
    const SampleSpec& spec_;
    std::string_view name_;
    std::unordered_map<std::string_view, std::size_t> index_;
};

/// Counts every line but keeps only the first few, however large the specs are.
class Lines {
public:
    void add(const ArraySpec& array, const std::string& ours, const std::string& theirs) {
        if (!has_room()) return;
        append(in_quotes(array.path) + ": " + ours + ", " + theirs);
    }

    void add(const std::string& line) {
        if (has_room()) append(line);
    }

    bool empty() const noexcept { return count_ == 0; }

    std::string text() && {
        if (count_ > max_lines) {
            text_ += "\n... and " + std::to_string(count_ - max_lines) + " more";
        }
        return std::move(text_);
    }

private:
    bool has_room() noexcept { return ++count_ <= max_lines; }

    void append(const std::string& line) {
        if (!text_.empty()) text_ += '\n';
        text_ += line;
    }

    std::string text_;
    std::size_t count_ = 0;
};

void add_differing(Lines& lines, const Side& ours, const Side& theirs) {
    for (const ArraySpec& array : ours.arrays()) {
        const std::optional<std::size_t> other = theirs.find(array.path);
        if (!other) {
            lines.add(array, ours.has(array), theirs.lacks());
        } else if (const ArraySpec& counterpart = theirs.arrays()[*other]; array != counterpart) {
            lines.add(array, ours.has(array), theirs.has(counterpart));
        }
    }
    for (const ArraySpec& array : theirs.arrays()) {
        if (!ours.find(array.path)) lines.add(array, ours.lacks(), theirs.has(array));
    }
}

/// The first two arrays, neighbours among those that both sides have, that `theirs` has the other
/// way round.
struct Swapped {
    const ArraySpec& first_in_ours;
    const ArraySpec& first_in_theirs;
};

std::optional<Swapped> find_swapped(const Side& ours, const Side& theirs) {
    const ArraySpec* before = nullptr;
    std::size_t place_before = 0;
    for (const ArraySpec& array : ours.arrays()) {
        const std::optional<std::size_t> place = theirs.find(array.path);
        if (!place) continue;
        if (before != nullptr && *place < place_before) return Swapped{*before, array};
        before = &array;
        place_before = *place;
    }
    return std::nullopt;
}

std::string order_text(const Side& ours, const Side& theirs, const Swapped& swapped) {
    std::string out{ours.name()};
    out += " has " + in_quotes(swapped.first_in_ours.path) + " before ";
    out += in_quotes(swapped.first_in_theirs.path) + ", ";
    out += theirs.name();
    out +=
        " after it; Python (optree) orders dict keys alphabetically, C++ keeps the order given: "
        "use one order on both sides";
    return out;
}

}  // namespace

std::string difference(const SampleSpec& ours, const SampleSpec& theirs, std::string_view ours_name,
                       std::string_view theirs_name) {
    if (ours == theirs) return {};
    const Side our_side{ours, ours_name};
    const Side their_side{theirs, theirs_name};
    const std::optional<Swapped> swapped = find_swapped(our_side, their_side);

    Lines lines;
    add_differing(lines, our_side, their_side);
    if (lines.empty()) {
        // Unequal, yet neither has an array that the other lacks: two of them are swapped.
        return "the same arrays in another order: " + order_text(our_side, their_side, *swapped);
    }
    if (swapped) lines.add("the order differs too: " + order_text(our_side, their_side, *swapped));
    return std::move(lines).text();
}

}  // namespace rondo
