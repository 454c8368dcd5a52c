// What embedding a gallery anew would take, before anything begins.
#include <algorithm>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "base/status.h"
#include "server/engine/backfill/backfill_calls.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/collection/row_samples.h"
#include "server/engine/embed/embed_inputs.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr int64_t kSampledItems = 512;
constexpr size_t kTrialBytesMax = 16 << 20;

uint64_t ItemsWithout(uint32_t generation, const ProgressRecord& progress) {
  uint64_t items = 0;
  for (const auto& [generations, count] : progress.items) {
    if (std::find(generations.begin(), generations.end(), generation) == generations.end()) items += count;
  }
  return items;
}

// Code points of valid UTF-8.
int64_t CharactersOf(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xC0') != '\x80'; });
}

double MeanOf(int64_t sum, int64_t n) { return n == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(n); }

std::vector<uint64_t> SampleItems(Collection& collection, uint32_t generation) {
  const PinnedView view = collection.Pin();
  std::vector<uint32_t> others = view->Generations(UINT32_MAX);
  std::erase(others, generation);
  return SpreadRows(*view, others, UINT32_MAX, kSampledItems);
}

// Reads the stored inputs of items, and returns up to `kept_max` evenly spread ones. Damaged ones are left out.
absl::StatusOr<std::vector<RawInput>> ReadInputs(const Store& store, const Collection& collection,
                                                 const std::vector<uint64_t>& ids, size_t kept_max,
                                                 const CallContext& context, EmbeddingEstimate* estimate) {
  std::vector<RawInput> kept;
  size_t kept_bytes = 0;
  int64_t bytes = 0, characters = 0;
  for (size_t i = 0; i < ids.size(); ++i) {  // One at a time: an input may be large.
    LC_RETURN_IF_ERROR(CheckAlive(context, "estimate"));
    const absl::StatusOr<std::string> stored = store.Get(Table::kInputs, keys::Input(collection.number(), ids[i]));
    if (absl::IsNotFound(stored.status())) continue;
    LC_RETURN_IF_ERROR(stored.status());
    absl::StatusOr<RawInput> input = DecodeInput(*stored);
    if (!input.ok()) continue;
    ++estimate->with_input;
    bytes += static_cast<int64_t>(stored->size());
    if (const auto* text = std::get_if<TextInput>(&*input)) {
      ++estimate->texts;
      characters += CharactersOf(text->text);
    }
    // The k-th of those kept comes from the k-th part of the sample.
    if (kept.size() >= kept_max || kept.size() * ids.size() > i * kept_max) continue;
    if (kept_bytes + stored->size() > kTrialBytesMax) continue;
    kept_bytes += stored->size();
    kept.push_back(*std::move(input));
  }
  estimate->characters_a_text = MeanOf(characters, estimate->texts);
  estimate->bytes_an_input = MeanOf(bytes, estimate->with_input);
  return kept;
}

// Embeds the inputs, and forgets what came of it but the rate.
void Try(const Context& engine, const Collection& collection, const GenerationRecord& generation,
         const std::vector<RawInput>& inputs, const CallContext& context, EmbeddingEstimate* estimate) {
  std::vector<const RawInput*> asked;
  for (const RawInput& input : inputs) asked.push_back(&input);
  const auto embed = [&](std::span<const RawInput* const> some) {
    return EmbedInputs(
        engine, collection, generation, some, EmbedRole::kDocument,
        [](size_t i) { return StrCat("stored input ", i, " of the trial"); }, context);
  };
  // The first one waits until the encoder has started, and is embedded once more.
  const absl::StatusOr<EmbeddedInputs> first = embed(std::span(asked).first(1));
  estimate->trial_error = first.status();
  if (!first.ok()) return;
  const absl::Time began = absl::Now();
  const absl::StatusOr<EmbeddedInputs> embedded = embed(asked);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - began);
  estimate->trial_error = embedded.status();
  if (!embedded.ok()) return;
  for (const absl::StatusOr<std::vector<float>>& one : *embedded) {
    estimate->trial_inputs += one.ok() ? 1 : 0;
    estimate->trial_error.Update(one.status());
  }
  if (seconds > 0) estimate->items_per_second = static_cast<double>(estimate->trial_inputs) / seconds;
}

}  // namespace

absl::StatusOr<EmbeddingEstimate> BackfillCalls::Estimate(const EstimateCall& call, const CallContext& context) const {
  if (call.trial_max < 0 || call.trial_max > kTrialInputsMax) {
    return InvalidField("trial_max", StrCat(call.trial_max), StrCat("0 (no trial) .. ", kTrialInputsMax));
  }
  LC_RETURN_IF_ERROR(CheckAlive(context, "estimate"));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  const auto state = collection.state();
  const uint32_t active = state->record.active_generation;
  if (call.generation != 0 && call.generation < active) {
    return InvalidField("generation", StrCat(call.generation),
                        StrCat("0 or ", active, ", which serves, or a newer one"));
  }
  LC_ASSIGN_OR_RETURN(const GenerationRecord* generation,
                      call.generation == 0 ? state->Resolve(0) : state->ResolveAny(call.generation));
  EmbeddingEstimate estimate;
  estimate.generation = generation->generation;
  estimate.items = ItemsWithout(generation->generation, collection.progress());
  const std::vector<uint64_t> ids = SampleItems(collection, generation->generation);
  estimate.sampled = static_cast<int64_t>(ids.size());
  LC_ASSIGN_OR_RETURN(
      const std::vector<RawInput> inputs,
      ReadInputs(*context_.store, collection, ids, static_cast<size_t>(call.trial_max), context, &estimate));
  if (!inputs.empty()) {
    CallContext part = context;  // A slow trial leaves time to answer without it.
    const absl::Time now = absl::Now();
    if (context.deadline != absl::InfiniteFuture()) part.deadline = now + (context.deadline - now) / 2;
    Try(context_, collection, *generation, inputs, part, &estimate);
  } else if (call.trial_max > 0 && estimate.with_input > 0) {
    estimate.trial_error = FailedPrecondition(StrCat("each stored input is larger than ", kTrialBytesMax, " bytes"));
  }
  return estimate;
}

}  // namespace lightcone::server
