#include "cli/commands/estimate.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

// What follows for the whole gallery; negative: not known.
struct Totals {
  double inputs = -1, tokens = -1, seconds = -1, price = -1;
};

Totals TotalsOf(const v1::EstimateResponse& estimate, const EstimateTerms& terms) {
  Totals totals;
  if (estimate.sampled() == 0) return totals;
  totals.inputs = static_cast<double>(estimate.items()) * estimate.with_input() / estimate.sampled();
  if (estimate.with_input() > 0 && estimate.texts() == estimate.with_input()) {
    totals.tokens = totals.inputs * std::max(1.0, estimate.characters_a_text() / kCharactersAToken);
    if (terms.price > 0) totals.price = totals.tokens / 1e6 * terms.price;
  }
  double rate = estimate.items_per_second();
  if (terms.embed_rate > 0) rate = rate > 0 ? std::min(rate, terms.embed_rate) : terms.embed_rate;
  if (rate > 0) totals.seconds = totals.inputs / rate;
  return totals;
}

OrderedJson Known(double value) { return value < 0 ? OrderedJson() : OrderedJson(value); }

}  // namespace

absl::Status CheckTerms(const EstimateTerms& terms, uint32_t trial) {
  constexpr double kMost = 1'000'000;
  if (trial > 256) return InvalidField("--trial", StrCat(trial), "0 (no trial) .. 256");
  if (!(terms.price >= 0 && terms.price <= kMost)) {
    return InvalidField("--price", Number(terms.price), "0 (not known) .. 1000000");
  }
  if (!(terms.embed_rate >= 0 && terms.embed_rate <= kMost)) {
    return InvalidField("--embed-rate", Number(terms.embed_rate), "0 .. 1000000");
  }
  return absl::OkStatus();
}

OrderedJson EstimateJson(const v1::EstimateResponse& estimate, const EstimateTerms& terms) {
  const Totals totals = TotalsOf(estimate, terms);
  OrderedJson json = FieldsJson(estimate, {"generation", "items"});
  json["inputs"] = Known(std::round(totals.inputs));
  json["tokens"] = Known(std::round(totals.tokens));
  json["seconds"] = Known(totals.seconds);
  json["price"] = Known(totals.price);
  json.update(FieldsJson(estimate, {"sampled", "with_input", "texts", "characters_a_text", "bytes_an_input",
                                    "trial_inputs", "items_per_second", "trial_error"}));
  return json;
}

std::string EstimateText(const v1::EstimateResponse& estimate, const EstimateTerms& terms, const std::string& indent) {
  const Totals totals = TotalsOf(estimate, terms);
  std::string text =
      StrCat(indent, Grouped(estimate.items()), " items are not embedded by generation ", estimate.generation());
  if (estimate.items() == 0) return text + "\n";
  text += StrCat("; of ", estimate.sampled(), " looked at, ", estimate.with_input(), " have a stored input",
                 estimate.with_input() < estimate.sampled() ? " (workers embed the others)" : "", "\n");
  if (totals.tokens > 0) {
    text += StrCat(indent, "texts of ", Number(estimate.characters_a_text()), " characters on average: about ",
                   Grouped(static_cast<uint64_t>(totals.tokens)), " tokens, at 4 characters a token\n");
  } else if (estimate.with_input() > 0) {
    text += StrCat(indent, "inputs of ", Bytes(static_cast<uint64_t>(estimate.bytes_an_input())), " on average\n");
  }
  if (totals.price >= 0) {
    text += StrCat(indent, "price about ", Number(totals.price), ", at ", Number(terms.price), " a million tokens\n");
  }
  if (!estimate.trial_error().empty()) text += StrCat(indent, "the trial failed: ", estimate.trial_error(), "\n");
  if (totals.seconds >= 0) {
    const bool named =
        terms.embed_rate > 0 && !(estimate.items_per_second() > 0 && estimate.items_per_second() < terms.embed_rate);
    text += StrCat(indent, "about ", SecondsText(totals.seconds),
                   !named ? StrCat("; the encoder gave ", Number(estimate.items_per_second()),
                                   " a second in a trial of ", estimate.trial_inputs(), " inputs")
                          : std::string(", at the rate that you named"),
                   "\n");
  } else if (estimate.with_input() > 0) {
    text += StrCat(indent, "how long that takes is not known without a trial\n");
  }
  return text;
}

}  // namespace lightcone::cli
