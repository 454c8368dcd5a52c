#include "server/engine/training/adapter_pairs.h"

#include <map>
#include <optional>
#include <utility>

#include "base/status.h"
#include "server/engine/embed/embed_worker.h"
#include "server/engine/validation/item_class.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kReadAtOnce = 1'000;
constexpr size_t kEmbedAtOnce = 64;
constexpr uint64_t kPairsBetweenChecks = 4'096;

struct Candidate {
  uint64_t internal_id = 0;
  std::string label;
  std::optional<EmbeddedItem> item = {};  // what to keep the new embedding of; nullopt: none is kept
};

bool Has(const ItemRecord& item, uint32_t generation) {
  return std::binary_search(item.generations.begin(), item.generations.end(), generation);
}

class Gathering {
 public:
  Gathering(const Collection& collection, const PairsWanted& wanted, const PairsRun& run)
      : collection_(collection),
        wanted_(wanted),
        run_(run),
        pairs_(wanted.pairs_max, wanted.seed),
        to_embed_(run.embed ? wanted.embed_max : 0, wanted.seed) {}

  absl::StatusOr<AdapterPairs> Run() {
    LC_RETURN_IF_ERROR(Choose());
    const std::vector<Candidate> both = pairs_.Take();
    std::vector<Candidate> embed = to_embed_.Take();
    const int64_t missing = std::max<int64_t>(0, wanted_.embed_max - existing_);
    embed.resize(std::min(embed.size(), static_cast<size_t>(missing)));
    total_ = both.size() + embed.size();
    for (size_t begin = 0; begin < both.size(); begin += kReadAtOnce) {
      LC_RETURN_IF_ERROR(AddStored({both.data() + begin, std::min(kReadAtOnce, both.size() - begin)}));
    }
    for (size_t begin = 0; begin < embed.size(); begin += kEmbedAtOnce) {
      LC_RETURN_IF_ERROR(AddEmbedded({embed.data() + begin, std::min(kEmbedAtOnce, embed.size() - begin)}));
    }
    return std::move(made_);
  }

 private:
  absl::Status Choose() {
    const keys::Range range = keys::ItemRange(collection_.number());
    const auto items = collection_.store()->Scan(Table::kItems, range.begin, range.end);
    const uint32_t active = collection_.state()->record.active_generation;
    uint64_t seen = 0;
    for (; items->Valid(); items->Next()) {
      if (seen++ % kPairsBetweenChecks == 0) LC_RETURN_IF_ERROR(Step(seen - 1, 0, "looking for pairs"));
      LC_ASSIGN_OR_RETURN(const ItemRecord item, DecodeItem(items->value()));
      if (!Has(item, wanted_.older) || IsExpired(item, collection_.expiry().NowMs())) continue;
      const bool both = Has(item, wanted_.newer);
      existing_ += both;
      if (!both && !item.has_input) continue;
      Candidate candidate{item.internal_id, {}};
      // Views show an item by its newest embedding: one of a generation that is not to serve would hide it.
      if (!both && item.generations.back() < wanted_.newer && wanted_.newer >= active) {
        LC_ASSIGN_OR_RETURN(ItemId id, keys::ParseItem(items->key()));
        candidate.item = EmbeddedItem{std::move(id), item.sequence, {}};
      }
      if (!wanted_.label_field.empty()) {
        auto label = ClassOf(item.payload_json, wanted_.label_field);
        if (!label) {
          ++made_.unlabelled;
          continue;
        }
        candidate.label = *std::move(label);
      }
      (both ? pairs_ : to_embed_).Offer(item.internal_id, [&] { return std::move(candidate); });
    }
    return items->status();
  }

  // What has been deleted or replaced since is left out.
  absl::Status AddStored(std::span<const Candidate> some) {
    LC_RETURN_IF_ERROR(Step(static_cast<uint64_t>(made_.count), total_, "reading pairs"));
    LC_ASSIGN_OR_RETURN(const auto older, Read(some, wanted_.older));
    LC_ASSIGN_OR_RETURN(const auto newer, Read(some, wanted_.newer));
    for (size_t i = 0; i < some.size(); ++i) {
      if (!older[i].empty() && !newer[i].empty()) Add(some[i], older[i], newer[i]);
    }
    return absl::OkStatus();
  }

  absl::Status AddEmbedded(std::span<Candidate> some) {
    LC_RETURN_IF_ERROR(Step(static_cast<uint64_t>(made_.count), total_, "embedding stored inputs"));
    LC_ASSIGN_OR_RETURN(const auto older, Read(some, wanted_.older));
    std::vector<std::string> inputs;
    std::vector<size_t> places;
    size_t bytes = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      if (older[i].empty()) continue;
      auto stored = collection_.store()->Get(Table::kInputs, keys::Input(collection_.number(), some[i].internal_id));
      if (absl::IsNotFound(stored.status())) continue;
      LC_RETURN_IF_ERROR(stored.status());
      bytes += stored->size();
      inputs.push_back(*std::move(stored));
      places.push_back(i);
      if (bytes < kInputBytesAtOnce) continue;
      LC_RETURN_IF_ERROR(AddInputs(some, older, inputs, places));
      inputs.clear();
      places.clear();
      bytes = 0;
    }
    return AddInputs(some, older, inputs, places);
  }

  // `places`: of the inputs in `some` and `older`.
  absl::Status AddInputs(std::span<Candidate> some, const std::vector<std::vector<float>>& older,
                         const std::vector<std::string>& inputs, const std::vector<size_t>& places) {
    if (inputs.empty()) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(const auto vectors, run_.embed(inputs));
    std::vector<EmbeddedItem> kept;
    for (size_t i = 0; i < vectors.size(); ++i) {
      if (!vectors[i].ok()) {
        ++made_.undecodable;
        continue;
      }
      Add(some[places[i]], older[places[i]], *vectors[i]);
      ++made_.embedded;
      std::optional<EmbeddedItem>& item = some[places[i]].item;
      if (!item) continue;
      item->vector = *vectors[i];
      kept.push_back(*std::exchange(item, std::nullopt));
    }
    if (kept.empty()) return absl::OkStatus();
    LC_ASSIGN_OR_RETURN(const int64_t written, run_.keep(std::move(kept)));
    made_.kept += written;
    return absl::OkStatus();
  }

  // Empty where there is none any more.
  absl::StatusOr<std::vector<std::vector<float>>> Read(std::span<const Candidate> some, uint32_t generation) const {
    std::vector<std::string> embedding_keys;
    for (const Candidate& one : some) {
      embedding_keys.push_back(keys::Embedding(collection_.number(), generation, one.internal_id));
    }
    const auto stored = collection_.store()->MultiGet(Table::kEmbeddings, embedding_keys);
    std::vector<std::vector<float>> vectors(some.size());
    for (size_t i = 0; i < some.size(); ++i) {
      if (absl::IsNotFound(stored[i].status())) continue;
      LC_RETURN_IF_ERROR(stored[i].status());
      LC_ASSIGN_OR_RETURN(EmbeddingRecord record, DecodeEmbedding(*stored[i]));
      vectors[i] = std::move(record.z);
    }
    return vectors;
  }

  void Add(const Candidate& item, const std::vector<float>& older, const std::vector<float>& newer) {
    made_.older.insert(made_.older.end(), older.begin(), older.end());
    made_.newer.insert(made_.newer.end(), newer.begin(), newer.end());
    if (!wanted_.label_field.empty()) {
      made_.labels.push_back(classes_.try_emplace(item.label, static_cast<int64_t>(classes_.size())).first->second);
    }
    made_.items.push_back(static_cast<int64_t>(ItemInFit(item.internal_id)));
    ++made_.count;
  }

  absl::Status Step(uint64_t done, uint64_t total, std::string_view step) const {
    if (run_.cancelled() || collection_.dropped()) return MakeStatus(absl::StatusCode::kCancelled, "gathering pairs");
    run_.report(done, total, step);
    return absl::OkStatus();
  }

  const Collection& collection_;
  const PairsWanted& wanted_;
  const PairsRun& run_;
  Draw<Candidate> pairs_, to_embed_;
  int64_t existing_ = 0;  // items that both generations embedded
  uint64_t total_ = 0;
  std::map<std::string, int64_t> classes_;
  AdapterPairs made_;
};

}  // namespace

absl::StatusOr<AdapterPairs> GatherPairs(const Collection& collection, const PairsWanted& wanted, const PairsRun& run) {
  return Gathering(collection, wanted, run).Run();
}

}  // namespace lightcone::server
