#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/commands/skipped_rows.h"
#include "cli/formats/ids.h"
#include "cli/formats/import_state.h"
#include "cli/formats/rows.h"
#include "cli/json/message_json.h"
#include "cli/table.h"
#include "client/upsert_stream.h"

namespace lightcone::cli {
namespace {

// A batch is sent when it has this many bytes: a message stays small enough to be repeated quickly.
constexpr int64_t kBatchBytesMax = 8 << 20;

struct ImportFlags {
  std::string collection, file, format = "auto", text_field, made_by, ids, state, duplicates = "last", skip_invalid,
                                durability;
  std::vector<std::string> payload_fields;
  uint32_t generation = 0;
  std::optional<uint64_t> ttl_ms;
  int64_t batch = 500, start = 0, limit = 0;
  int in_flight = 8;
  bool same_content = false, number_rows = false, keep_input = false, ignore_generation = false, ignore_fields = false;
};

// The place in its batch of the item that a refusal names.
std::optional<int64_t> PlaceInBatch(const absl::Status& refusal) {
  const std::string field = PartsOf(refusal).field;
  int64_t place = 0;
  const size_t open = field.find("items[");
  const size_t close = open == std::string::npos ? open : field.find(']', open);
  if (close == std::string::npos || !absl::SimpleAtoi(field.substr(open + 6, close - open - 6), &place) || place < 0) {
    return std::nullopt;
  }
  return place;
}

// What the server has acknowledged. The stream's thread writes it, the command's thread reads it.
class Ledger {
 public:
  Ledger(const ImportFlags& flags, int64_t start)
      : state_file_(flags.state), start_(start), state_({start, flags.collection, flags.file, flags.generation, 0}) {}

  // Items of the rows first_row .. end_row - 1. `checksum` is of all rows of the file before end_row. Answers the
  // batch's tag.
  uint64_t RecordSent(int64_t first_row, int64_t end_row, int64_t items, uint32_t checksum) {
    absl::MutexLock lock(&mutex_);
    batches_.push_back({first_row, end_row, items, checksum});
    return batches_.size() - 1;
  }

  // A batch without an item that the server takes.
  void RecordSkipped(uint64_t tag) {
    absl::MutexLock lock(&mutex_);
    state_.next_row = batches_[tag].end_row;
    state_.rows_crc32c = batches_[tag].checksum;
  }

  void RecordAcknowledged(uint64_t tag, const absl::StatusOr<v1::UpsertResponse>& outcome) {
    absl::MutexLock lock(&mutex_);
    const Batch& batch = batches_[tag];
    if (!outcome.ok()) {
      if (refused_.ok()) refused_ = Explain(outcome.status(), batch);
      return;
    }
    ++acknowledged_;
    rows_written_ += batch.items;
    sequence_ = outcome->sequence();
    generation_ = outcome->generation();
    if (warning_.empty() && outcome->warnings_size() > 0) warning_ = outcome->warnings(0);
    // Acknowledgements come in order, so everything before a first refusal is written.
    if (refused_.ok()) {
      state_.next_row = batch.end_row;
      state_.rows_crc32c = batch.checksum;
    }
    if (!state_file_.empty() && absl::Now() - saved_ > absl::Seconds(1)) SaveLocked();
  }

  absl::Status refused() const {
    absl::MutexLock lock(&mutex_);
    return refused_;
  }
  int64_t rows_written() const {
    absl::MutexLock lock(&mutex_);
    return rows_written_;
  }
  // The first doubt of the server; empty: none.
  std::string warning() const {
    absl::MutexLock lock(&mutex_);
    return warning_;
  }
  // The row from which a later import goes on.
  int64_t written_to() const {
    absl::MutexLock lock(&mutex_);
    return state_.next_row;
  }
  uint64_t sequence() const {
    absl::MutexLock lock(&mutex_);
    return sequence_;
  }
  uint32_t generation() const {
    absl::MutexLock lock(&mutex_);
    return generation_;
  }
  absl::Status Save() {
    absl::MutexLock lock(&mutex_);
    if (!state_file_.empty()) SaveLocked();
    return state_status_;
  }

 private:
  struct Batch {
    int64_t first_row, end_row, items;
    uint32_t checksum;
  };

  // The server names an item by its place in the batch; the user knows its row in the file.
  static absl::Status Explain(const absl::Status& status, const Batch& batch) {
    const std::optional<int64_t> place = PlaceInBatch(status);
    if (place && *place < batch.items) return Annotate(status, StrCat("row ", batch.first_row + *place));
    return Annotate(status, StrCat("rows ", batch.first_row, " .. ", batch.end_row - 1));
  }

  void SaveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (state_.next_row == start_) return;
    saved_ = absl::Now();
    const absl::Status status = WriteFileAtomically(state_file_, ImportStateText(state_));
    if (state_status_.ok()) state_status_ = status;
  }

  const std::string state_file_;
  const int64_t start_;
  mutable absl::Mutex mutex_;
  std::vector<Batch> batches_ ABSL_GUARDED_BY(mutex_);
  ImportState state_ ABSL_GUARDED_BY(mutex_);
  int64_t rows_written_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string warning_ ABSL_GUARDED_BY(mutex_);
  uint64_t sequence_ ABSL_GUARDED_BY(mutex_) = 0, acknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time saved_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Status refused_ ABSL_GUARDED_BY(mutex_), state_status_ ABSL_GUARDED_BY(mutex_);
};

// Where the state file says that an earlier run stood; row 0 without one.
absl::StatusOr<ImportState> StateOf(const ImportFlags& flags) {
  if (flags.state.empty() || !std::filesystem::exists(flags.state)) return ImportState();
  LC_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.state, 1 << 20));
  LC_ASSIGN_OR_RETURN(ImportState state, ParseImportState(text, flags.state));
  LC_RETURN_IF_ERROR(CheckSameTarget(state, flags.collection, flags.generation, flags.state));
  return state;
}

absl::Status CheckImport(const ImportFlags& flags) {
  if (flags.batch < 1 || flags.batch > 10'000) return InvalidField("--batch", StrCat(flags.batch), "1 .. 10000");
  if (flags.in_flight < 1 || flags.in_flight > 1024) {
    return InvalidField("--in-flight", StrCat(flags.in_flight), "1 .. 1024");
  }
  if (flags.duplicates != "last" && flags.duplicates != "error") {
    return InvalidField("--duplicates", StrCat("'", flags.duplicates, "'"), "last, error");
  }
  for (const auto& [name, rows] : {std::pair("--start", flags.start), std::pair("--limit", flags.limit)}) {
    if (rows < 0 || rows > kImportRowMax) return InvalidField(name, StrCat(rows), StrCat("0 .. ", kImportRowMax));
  }
  return absl::OkStatus();
}

// The rows of the file, each with the id that belongs to it.
class Source {
 public:
  static absl::StatusOr<std::unique_ptr<Source>> Open(const ImportFlags& flags) {
    auto source = std::unique_ptr<Source>(new Source(flags));
    ReadOptions options = {.payload_fields = flags.payload_fields, .refuse_unknown = !flags.ignore_fields};
    std::error_code ignored;
    const bool images =
        flags.format == "images" || (flags.format == "auto" && std::filesystem::is_directory(flags.file, ignored));
    if (images) {
      if (!flags.state.empty()) {
        return InvalidField(
            "--state", StrCat("'", flags.state, "'"),
            "left out for a folder: its pictures are counted in the order of their names, which more of them change");
      }
      LC_ASSIGN_OR_RETURN(source->rows_, OpenImages(flags.file));
    } else {
      LC_ASSIGN_OR_RETURN(const RowFormat format, RowFormatOf(flags.format, flags.file));
      if (!flags.text_field.empty() && format != RowFormat::kJsonl) {
        return InvalidField("--text-field", StrCat("'", flags.text_field, "'"), "left out for files that are no jsonl");
      }
      options.text_field = flags.text_field;
      LC_ASSIGN_OR_RETURN(source->rows_, OpenRows(flags.file, format, options));
      source->number_rows_ = flags.number_rows || format != RowFormat::kJsonl;
      source->ids_may_repeat_ = format == RowFormat::kJsonl;
    }
    if (!flags.ids.empty()) {
      LC_ASSIGN_OR_RETURN(source->ids_, OpenIds(flags.ids, options));
      source->ids_may_repeat_ = true;
    }
    return source;
  }

  // False at the end. `bad` says why the row is none to import; an error, why the file cannot be read on.
  absl::StatusOr<bool> Next(Row* row, absl::Status* bad) {
    const absl::StatusOr<bool> read = rows_->Next(row);
    if (!read.ok() && !absl::IsInvalidArgument(read.status())) return read.status();
    *bad = read.status();
    const bool more = !read.ok() || *read;
    if (ids_ != nullptr) {
      const absl::StatusOr<bool> named = ids_->Next(row);
      if (!named.ok() && !absl::IsInvalidArgument(named.status())) return named.status();
      if (named.ok() && *named != more) {
        return InvalidArgument(StrCat("'", flags_.ids, "' has ", *named ? "more" : "fewer", " rows than '", flags_.file,
                                      "', which ", *named ? "ends at" : "goes on with", " row ", next_));
      }
      if (!more && !named.ok()) return named.status();
      if (bad->ok()) *bad = named.status();
    }
    if (!more) return false;
    if (bad->ok()) *bad = CheckId(row);
    ++next_;
    return true;
  }
  int64_t next() const { return next_; }  // number of the row that Next reads next
  int64_t rows() const { return rows_->rows(); }
  std::string_view text() const { return rows_->text(); }  // see RowReader
  // Of the last row: a fingerprint of its id, and whether an earlier row had the id.
  uint64_t fingerprint() const { return fingerprint_; }
  bool repeated() const { return repeated_; }
  double done() const {
    return static_cast<double>(rows_->bytes_read()) / static_cast<double>(std::max<int64_t>(1, rows_->bytes()));
  }

 private:
  explicit Source(const ImportFlags& flags) : flags_(flags) {}

  absl::Status CheckId(Row* row) {
    if (!row->id.has_value()) {
      if (!number_rows_) {
        return InvalidField(StrCat("'", flags_.file, "' row ", next_, " id"), "absent",
                            "an id in each row, or --ids FILE, or --number-rows");
      }
      row->id.emplace().set_number(static_cast<uint64_t>(next_));
    }
    if (!ids_may_repeat_) return absl::OkStatus();
    fingerprint_ = row->id->kind_case() == v1::ItemId::kNumber ? absl::HashOf(1, row->id->number())
                                                               : absl::HashOf(2, row->id->name());
    repeated_ = !seen_.insert(fingerprint_).second;
    if (!repeated_ || flags_.duplicates != "error") return absl::OkStatus();
    return InvalidField(StrCat("'", flags_.file, "' row ", next_, " id"), StrCat(ItemIdText(*row->id), " again"),
                        "an id that no earlier row has (--duplicates error)");
  }

  const ImportFlags& flags_;
  std::unique_ptr<RowReader> rows_;
  std::unique_ptr<IdReader> ids_;
  bool number_rows_ = false, ids_may_repeat_ = false, repeated_ = false;
  uint64_t fingerprint_ = 0;
  absl::flat_hash_set<uint64_t> seen_;  // fingerprints of the ids so far: eight bytes tell them apart
  int64_t next_ = 0;
};

// Passes over the rows before `start` and answers their checksum. The rows that `before` tells of must be among them.
absl::StatusOr<uint32_t> SkipRows(const ImportFlags& flags, const ImportState& before, int64_t start, Source* source) {
  uint32_t checksum = 0;
  Row row;
  absl::Status bad;
  while (source->next() < start) {
    LC_ASSIGN_OR_RETURN(const bool more, source->Next(&row, &bad));
    if (!more) break;
    if (flags.skip_invalid.empty()) LC_RETURN_IF_ERROR(bad);
    if (bad.ok()) checksum = AddToChecksum(row, checksum);
    if (source->next() == before.next_row && checksum != before.rows_crc32c) {
      return OtherRows(before, flags.file, flags.state);
    }
  }
  if (source->next() < before.next_row) return OtherRows(before, flags.file, flags.state);
  return checksum;
}

// Holds the generation that a row says it is of against the one that the import writes.
class GenerationCheck {
 public:
  GenerationCheck(const ImportFlags& flags, client::Client* client)
      : flags_(flags), client_(client), written_(flags.generation) {}

  // What batches are to say: --generation; else, once a row has told its own, the one that was active then.
  uint32_t written() const { return written_; }

  // INVALID_ARGUMENT names row `number`. One call to the server at most.
  absl::Status Check(const Row& row, int64_t number) {
    if (row.generation == 0 || flags_.ignore_generation) return absl::OkStatus();
    if (written_ == 0 && !asked_) {
      v1::CollectionsGetRequest request;
      request.set_name(flags_.collection);
      LC_ASSIGN_OR_RETURN(const v1::CollectionsGetResponse response, client_->GetCollection(request));
      written_ = response.collection().active_generation();
      asked_ = true;
    }
    // Where none is active, the server refuses the batch.
    if (written_ == 0 || row.generation == written_) return absl::OkStatus();
    return InvalidField(
        StrCat("row ", number, " generation"), StrCat(row.generation),
        StrCat(written_, flags_.generation > 0 ? " (--generation)" : ", the active one", "; --generation ",
               row.generation, " imports rows of that one, `export --filter '$generation = N'` writes those of one, ",
               "and --ignore-generation is for a collection that numbers its generations otherwise"));
  }

 private:
  const ImportFlags& flags_;
  client::Client* const client_;
  uint32_t written_;
  bool asked_ = false;
};

void AddItem(const ImportFlags& flags, const Row& row, v1::UpsertRequest* batch) {
  v1::Item* item = batch->add_items();
  *item->mutable_id() = *row.id;
  if (row.image.has_value()) {
    item->mutable_input()->set_image(*row.image);
  } else if (row.text.has_value()) {
    item->mutable_input()->set_text(*row.text);
  } else {
    client::SetVector(row.vector.data(), static_cast<int64_t>(row.vector.size()), item->mutable_vector());
  }
  if (flags.ttl_ms) item->set_ttl_ms(*flags.ttl_ms);
  // The payload of a content that is stored already is kept; the wire takes none.
  if (row.payload_json.has_value() && !flags.same_content) item->set_payload_json(*row.payload_json);
}

// Some rows of the file: each item's row, and its line where rows are skipped.
struct RowBatch {
  v1::UpsertRequest request;
  int64_t first_row = 0, end_row = 0;
  uint32_t checksum = 0;  // of all rows before end_row
  std::vector<std::pair<int64_t, std::string>> lines;
};

// Cuts the rows into batches. No id comes twice in a batch: what repeats begins the next, and so the last row wins.
class Batches {
 public:
  // `checksum`: of the rows that were passed over. `skipped`: nullptr to end at a bad row.
  Batches(const ImportFlags& flags, v1::Durability durability, uint32_t checksum, Source* source,
          GenerationCheck* generations, SkippedRows* skipped)
      : flags_(flags),
        source_(source),
        generations_(generations),
        skipped_(skipped),
        end_(flags.limit > 0 ? source->next() + flags.limit : INT64_MAX),
        checksum_(checksum) {
    settings_.set_collection(flags.collection);
    settings_.set_durability(durability);
    settings_.set_same_content(flags.same_content);
    settings_.set_keep_input(flags.keep_input);
    settings_.set_model(flags.made_by);
  }

  // False when there are no more rows to send; status() says whether that is the end.
  bool Next(RowBatch* batch) {
    *batch = RowBatch{.request = settings_, .first_row = next_row(), .end_row = 0, .checksum = 0, .lines = {}};
    ids_.clear();
    int64_t bytes = 0;
    while (batch->request.items_size() < flags_.batch && bytes < kBatchBytesMax && (held_ || Read())) {
      held_ = source_->repeated() && ids_.contains(source_->fingerprint());
      if (held_) break;
      if (source_->repeated()) ++repeated_;
      ids_.insert(source_->fingerprint());
      if (skipped_ != nullptr) batch->lines.emplace_back(source_->next() - 1, std::string(source_->text()));
      AddItem(flags_, row_, &batch->request);
      checksum_ = AddToChecksum(row_, checksum_);
      batch->end_row = source_->next();
      batch->checksum = checksum_;
      bytes += static_cast<int64_t>(row_.vector.size() * sizeof(float) + row_.payload_json.value_or("").size() +
                                    row_.image.value_or("").size() + row_.text.value_or("").size());
    }
    if (status_.ok()) {  // Bad rows behind the last item are passed over, too.
      batch->end_row = next_row();
      batch->checksum = checksum_;
    }
    batch->request.set_generation(generations_->written());
    return batch->request.items_size() > 0;
  }
  const absl::Status& status() const { return status_; }
  int64_t repeated() const { return repeated_; }  // rows whose id an earlier row had

 private:
  int64_t next_row() const { return source_->next() - (held_ ? 1 : 0); }

  // The next row that is no bad one, into row_.
  bool Read() {
    while (status_.ok() && source_->next() < end_) {
      absl::Status bad;
      const absl::StatusOr<bool> more = source_->Next(&row_, &bad);
      status_ = more.status();
      if (!status_.ok() || !*more) return false;
      const bool parsed = bad.ok();
      if (parsed) bad = generations_->Check(row_, source_->next() - 1);
      if (bad.ok()) return true;
      const bool skip = skipped_ != nullptr && absl::IsInvalidArgument(bad);
      status_ = skip ? skipped_->Write(source_->next() - 1, bad, source_->text()) : bad;
      if (skip && parsed) checksum_ = AddToChecksum(row_, checksum_);
    }
    return false;
  }

  const ImportFlags& flags_;
  Source* const source_;
  GenerationCheck* const generations_;
  SkippedRows* const skipped_;
  const int64_t end_;
  v1::UpsertRequest settings_;
  uint32_t checksum_;
  Row row_;
  bool held_ = false;                  // row_ was read, and begins the next batch
  absl::flat_hash_set<uint64_t> ids_;  // fingerprints of the batch
  int64_t repeated_ = 0;
  absl::Status status_;
};

// Writes the batch without the items that the server refuses, one call after the other.
absl::Status WriteOrSkip(client::Client* client, RowBatch batch, SkippedRows* skipped, Ledger* ledger) {
  absl::StatusOr<v1::UpsertResponse> outcome;
  while (batch.request.items_size() > 0) {
    outcome = client->Upsert(batch.request);
    const std::optional<int64_t> place = PlaceInBatch(outcome.status());
    if (!absl::IsInvalidArgument(outcome.status()) || !place || *place >= batch.request.items_size()) break;
    const auto& [row, text] = batch.lines[static_cast<size_t>(*place)];
    LC_RETURN_IF_ERROR(skipped->Write(row, outcome.status(), text));
    batch.request.mutable_items()->DeleteSubrange(static_cast<int>(*place), 1);
    batch.lines.erase(batch.lines.begin() + *place);
  }
  const int items = batch.request.items_size();
  if (items > 0 && !outcome.ok()) {
    return Annotate(outcome.status(), StrCat("rows ", batch.first_row, " .. ", batch.end_row - 1));
  }
  const uint64_t tag = ledger->RecordSent(batch.first_row, batch.end_row, items, batch.checksum);
  items > 0 ? ledger->RecordAcknowledged(tag, outcome) : ledger->RecordSkipped(tag);
  return absl::OkStatus();
}

// Reads, batches and sends until the end, a bad row or a refusal. `stream`: nullptr to skip what is refused.
absl::Status SendAll(client::Client* client, const Source& source, Batches* batches, client::UpsertStream* stream,
                     SkippedRows* skipped, Ledger* ledger) {
  ProgressBar bar("import", source.rows(), "rows");
  RowBatch batch;
  while (batches->Next(&batch)) {
    if (stream == nullptr) {
      LC_RETURN_IF_ERROR(WriteOrSkip(client, std::move(batch), skipped, ledger));
    } else {
      const uint64_t tag =
          ledger->RecordSent(batch.first_row, batch.end_row, batch.request.items_size(), batch.checksum);
      LC_RETURN_IF_ERROR(stream->Send(std::move(batch.request), tag));
    }
    LC_RETURN_IF_ERROR(batches->status());
    LC_RETURN_IF_ERROR(ledger->refused());
    bar.Show(source.done(), ledger->rows_written());
  }
  return batches->status();
}

// What an import that ended well says.
void ShowImport(Context& context, const Ledger& ledger, int64_t repeated, const SkippedRows* skipped,
                const std::string& skipped_file, double seconds) {
  const int64_t left_out = skipped == nullptr ? 0 : skipped->count();
  std::string text = StrCat("imported ", Grouped(static_cast<uint64_t>(ledger.rows_written())), " rows in ",
                            Number(seconds), " s, sequence ", ledger.sequence(), "\n");
  if (repeated > 0) text += StrCat(repeated, " of them replaced an earlier row of the same id\n");
  if (left_out > 0) text += StrCat(left_out, " rows were left out, and '", skipped_file, "' says why\n");
  if (!ledger.warning().empty()) text += StrCat("warning: ", ledger.warning(), "\n");
  context.Show({{"rows", ledger.rows_written()},
                {"repeated", repeated},
                {"skipped", left_out},
                {"warning", ledger.warning()},
                {"next_row", ledger.written_to()},
                {"generation", ledger.generation()},
                {"sequence", ledger.sequence()},
                {"seconds", seconds}},
               text);
}

absl::Status RunImport(Context& context, const ImportFlags& flags) {
  LC_RETURN_IF_ERROR(CheckImport(flags));
  LC_ASSIGN_OR_RETURN(const v1::Durability durability, ParseDurability(flags.durability));
  LC_ASSIGN_OR_RETURN(const ImportState before, StateOf(flags));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source, Source::Open(flags));
  const int64_t start = std::max(flags.start, before.next_row);
  LC_ASSIGN_OR_RETURN(const uint32_t checksum, SkipRows(flags, before, start, source.get()));
  // A bulk load is taken to be the one writer of its ids: a lost connection does not end it.
  context.retry_writes = true;
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  const absl::Time began = absl::Now();
  Ledger ledger(flags, start);
  GenerationCheck generations(flags, client);
  client::UpsertStreamOptions options;
  options.in_flight_max = flags.in_flight;
  options.on_acknowledge = [&ledger](uint64_t tag, const absl::StatusOr<v1::UpsertResponse>& outcome) {
    ledger.RecordAcknowledged(tag, outcome);
  };
  std::unique_ptr<SkippedRows> skipped;
  std::unique_ptr<client::UpsertStream> stream;
  if (flags.skip_invalid.empty()) {
    stream = client->OpenUpsertStream(std::move(options));
  } else {
    LC_ASSIGN_OR_RETURN(skipped, SkippedRows::Open(flags.skip_invalid, /*append=*/start > 0));
  }
  Batches batches(flags, durability, checksum, source.get(), &generations, skipped.get());
  absl::Status status = SendAll(client, *source, &batches, stream.get(), skipped.get(), &ledger);
  const absl::Status finished = stream == nullptr ? absl::OkStatus() : stream->Finish();
  if (!ledger.refused().ok()) status = ledger.refused();
  if (status.ok()) status = finished;
  const absl::Status saved = ledger.Save();
  if (!status.ok()) {
    const bool may_skip = absl::IsInvalidArgument(status) && skipped == nullptr;
    absl::Status told =
        MakeStatus(status.code(), StrCat(status.message(), "\nrows up to ", ledger.written_to(),
                                         " are written; go on with --start ", ledger.written_to(),
                                         may_skip ? ", and with --skip-invalid FILE to leave out such rows" : ""));
    status.ForEachPayload([&told](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
    return told;
  }
  LC_RETURN_IF_ERROR(saved);
  ShowImport(context, ledger, batches.repeated(), skipped.get(), flags.skip_invalid,
             absl::ToDoubleSeconds(absl::Now() - began));
  return absl::OkStatus();
}

void AddImportFlags(CLI::App* app, ImportFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option(
         "file", flags->file,
         "File of rows, or folder of images. npy: floats (rows, dimension). jsonl: {\"id\", \"vector\", \"payload\"} a "
         "line. A folder: the server embeds the images; paths are ids, payloads hold \"class\" (the folder) and "
         "\"file\"")
      ->required();
  app->add_option("--format", flags->format,
                  "Format of the rows: auto (by extension), npy, fvecs, bvecs, jsonl or images")
      ->capture_default_str();
  app->add_option(
      "--ids", flags->ids,
      "File of ids and payloads: npy of integers, a line for each row, or the .json that `generation adapter "
      "sample --json` printed; default: row numbers");
  app->add_option("--payload-fields", flags->payload_fields, "Fields of a line that make up the payload")
      ->delimiter(',');
  app->add_option("--text-field", flags->text_field,
                  "Field of a line of jsonl with a text for the server to embed, in place of \"vector\"");
  app->add_option("--made-by", flags->made_by,
                  "Model that made the vectors; another one than the generation's is refused");
  app->add_flag("--ignore-fields", flags->ignore_fields,
                "Pass over fields of a line that nothing is made of; else they are refused by name");
  app->add_flag("--number-rows", flags->number_rows, "Give rows of jsonl without an id their number, from 0");
  app->add_flag("--keep-input", flags->keep_input,
                "Keep the images or texts, so that later generations can embed them and trainings learn from them");
  app->add_option("--generation", flags->generation,
                  "Generation that embedded the vectors, or is to embed the images; 0: the active one. A row of "
                  "another generation is refused");
  app->add_flag("--ignore-generation", flags->ignore_generation,
                "Take rows whatever their generation, from a collection with other numbers");
  app->add_flag("--same-content", flags->same_content,
                "Add another model's embeddings of stored items, and keep their payloads");
  app->add_option("--duplicates", flags->duplicates,
                  "What a row does whose id an earlier row had: last (it replaces that one) or error")
      ->capture_default_str();
  app->add_option("--skip-invalid", flags->skip_invalid,
                  "File for the rows that are refused, with the reasons; the import goes on, a batch at a time");
  app->add_option("--batch", flags->batch, "Rows of a batch")->capture_default_str();
  app->add_option("--in-flight", flags->in_flight, "Most batches under way at once")->capture_default_str();
  app->add_option("--start", flags->start, "First row to import, from 0")->capture_default_str();
  app->add_option("--limit", flags->limit, "Most rows to import; 0: all")->capture_default_str();
  app->add_option("--state", flags->state, "File that keeps the next row, so that a later run goes on from there");
  AddTtl(app, "--ttl", &flags->ttl_ms, "Seconds after which the items expire");
  AddDurability(app, &flags->durability);
}

}  // namespace

void AddImport(CLI::App& root, Context& context) {
  AddCommands<ImportFlags>(
      root, context,
      {{"import", "Write the rows of an npy, fvecs, bvecs or jsonl file, or the images of a folder", &RunImport,
        &AddImportFlags}});
}

}  // namespace lightcone::cli
