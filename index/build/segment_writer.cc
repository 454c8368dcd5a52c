#include "index/build/segment_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "base/dcheck.h"
#include "base/files.h"
#include "base/status.h"
#include "index/build/calibration.h"
#include "index/graph/graph.h"
#include "index/graph/graph_builder.h"
#include "index/ivf/list_builder.h"
#include "index/ivf/pq_builder.h"
#include "index/rows/measured_recall.h"
#include "index/rows/segment_codes.h"
#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
// The disk begins to write after this many bytes. One sync at the end would keep the syncs of waiting writes behind all
// of the file.
constexpr size_t kBytesPerSync = 8 << 20;

// What searches read before vectors, and the ending of such files while others are written that may replace them.
constexpr std::string_view kWays[] = {kInt8CodesFile, kHalfCodesFile, kPqCodesFile, kGraphFile}, kKept = ".kept";
constexpr double kCodesFind = 0.97;  // share of the nearest rows that codes of any use find
constexpr int kMoreLinks = 2;        // factor of a graph's links, and of the breadth of its construction
constexpr int kLinksMax = 128;

// A file written front to back, with its checksum.
class FileWriter {
 public:
  FileWriter(std::string path, const BuildControl& control) : path_(std::move(path)), control_(control) {
    buffer_.reserve(kBufferBytes);
  }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter() {
    if (fd_ >= 0) ::close(fd_);
  }

  absl::Status Create() {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return fd_ >= 0 ? absl::OkStatus() : ErrnoStatus(errno, "create", path_);
  }

  absl::Status Write(const void* data, size_t bytes) {
    const std::string_view view(static_cast<const char*>(data), bytes);
    crc32c_ = Crc32c(view, crc32c_);
    bytes_ += bytes;
    if (bytes >= kBufferBytes) {
      LC_RETURN_IF_ERROR(Flush());
      return WriteOut(view);
    }
    if (buffer_.size() + bytes > kBufferBytes) LC_RETURN_IF_ERROR(Flush());
    buffer_.append(view);
    return absl::OkStatus();
  }

  absl::Status Finish(std::string_view name, SegmentManifest& manifest) {
    LC_RETURN_IF_ERROR(Flush());
    if (::fsync(fd_) != 0) return ErrnoStatus(errno, "fsync", path_);
    manifest.files.push_back({std::string(name), bytes_, crc32c_});
    return absl::OkStatus();
  }

 private:
  absl::Status Flush() {
    LC_RETURN_IF_ERROR(WriteOut(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

  absl::Status WriteOut(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kBufferBytes));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "write", path_);
      bytes.remove_prefix(static_cast<size_t>(n));
      unsynced_ += static_cast<size_t>(n);
      if (unsynced_ >= kBytesPerSync) {
        ::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);  // Errors of the disk come back from fsync.
        unsynced_ = 0;
      }
      if (control_.pace) control_.pace(static_cast<size_t>(n));
      if (control_.stop()) return MakeStatus(absl::StatusCode::kCancelled, "segment build stopped");
    }
    return absl::OkStatus();
  }

  const std::string path_;
  const BuildControl& control_;
  int fd_ = -1;
  std::string buffer_;
  size_t unsynced_ = 0;
  uint64_t bytes_ = 0;
  uint32_t crc32c_ = 0;
};

class SegmentWriter {
 public:
  SegmentWriter(std::string folder, const SegmentPlan& plan, const std::vector<std::shared_ptr<Segment>>& sources,
                std::vector<RowReference>& rows, const BuildControl& control)
      : folder_(std::move(folder)), plan_(plan), sources_(sources), rows_(rows), control_(control) {
    manifest_.id = plan.id;
    manifest_.generation = sources[0]->generation();
    manifest_.space = sources[0]->space();
    manifest_.kind = SealedKindName(plan.settings.kind);
    manifest_.rows = static_cast<int64_t>(rows.size());
    manifest_.stride = static_cast<int64_t>(StrideOf(manifest_.space.dimension));
    manifest_.first_sequence = plan.first_sequence;
    manifest_.last_sequence = plan.last_sequence;
    manifest_.rebuild = plan.settings.rebuild;
    manifest_.provisional = plan.provisional;
    manifest_.mended = true;
    manifest_.bias_max = 0;
    for (const RowReference& row : rows) {
      manifest_.bias_max = std::max(*manifest_.bias_max, sources[row.source]->block().factors[row.row].bias);
    }
  }

  absl::Status Write() {
    LC_RETURN_IF_ERROR(MakeFolders(folder_));
    if (manifest_.kind == "ivf") LC_RETURN_IF_ERROR(WriteLists());
    LC_RETURN_IF_ERROR(plan_.vectors_file.empty() ? WriteVectors() : LinkVectors());
    LC_RETURN_IF_ERROR(WriteColumn<RowFactors>(kFactorsFile, [](const RowBlock& b, size_t i) { return b.factors[i]; }));
    LC_RETURN_IF_ERROR(WriteColumn<uint64_t>(kIdsFile, [](const RowBlock& b, size_t i) { return b.ids[i]; }));
    LC_RETURN_IF_ERROR(
        WriteColumn<float>(kUncertaintyFile, [](const RowBlock& b, size_t i) { return b.uncertainty[i]; }));
    codes_ = plan_.settings.codes;
    graph_ = {plan_.settings.hnsw_m, plan_.settings.hnsw_ef_construction, plan_.settings.build_threads};
    LC_RETURN_IF_ERROR(WriteWays());
    if (manifest_.kind == "hnsw") LC_RETURN_IF_ERROR(MendGraph());
    if (manifest_.kind == "ivf") LC_RETURN_IF_ERROR(MendLists());
    return SyncFolder(folder_);
  }

 private:
  std::optional<CodeKind> Coded() const { return CodeKindOf(codes_, manifest_.space.dimension); }

  // What searches read before vectors: codes and a graph, as codes_ and graph_ say. Measures what they find.
  absl::Status WriteWays() {
    for (const std::string_view file : kWays) Discard(file);
    manifest_.codes_asked = codes_ == plan_.settings.codes ? "" : RowCodesName(plan_.settings.codes);
    if (const std::optional<CodeKind> kind = Coded()) LC_RETURN_IF_ERROR(WriteCodes(*kind));
    if (codes_ == RowCodes::kPq) LC_RETURN_IF_ERROR(WritePq());
    if (manifest_.kind == "hnsw") LC_RETURN_IF_ERROR(WriteGraph());
    LC_RETURN_IF_ERROR(WriteManifest());
    return manifest_.kind == "flat" ? absl::OkStatus() : Measure();
  }

  void Discard(std::string_view name) {
    std::error_code ignored;
    std::filesystem::remove(StrCat(folder_, "/", name), ignored);
    std::erase_if(manifest_.files, [name](const FileEntry& file) { return file.name == name; });
  }

  bool FindsEnough() const { return WalksFindEnough(manifest_.measured, plan_.settings.hnsw_ef_search); }

  // Where walks find too little, says what is to blame and replaces it: codes that drown what tells rows apart by finer
  // ones, then a graph that leaves rows out of reach by one with more ways in, and by one with more links. What still
  // finds too little is scanned (plan.cc).
  absl::Status MendGraph() {
    for (const RowCodes finer : {RowCodes::kHalf, RowCodes::kFloat32}) {
      if (FindsEnough() || unmendable_ || !Coded()) break;
      if (finer == codes_) continue;
      LC_ASSIGN_OR_RETURN(const double coded, CodesFind());
      if (coded >= kCodesFind) break;
      LC_RETURN_IF_ERROR(TryOthers([this, finer] {
        codes_ = finer;
        return WriteWays();
      }));
    }
    if (FindsEnough() || unmendable_) return absl::OkStatus();
    LC_RETURN_IF_ERROR(TryOthers([this] { return AddEntries(); }));
    if (FindsEnough() || unmendable_) return absl::OkStatus();
    return TryOthers([this] {
      graph_.m = std::min(kMoreLinks * graph_.m, kLinksMax);
      graph_.ef_construction *= kMoreLinks;
      return WriteWays();
    });
  }

  // Product quantisation has no bound of its error: where no number of lists finds enough by it, int8 codes do.
  absl::Status MendLists() {
    if (codes_ != RowCodes::kPq || ListsFindEnough(manifest_.measured)) return absl::OkStatus();
    return TryOthers([this] {
      codes_ = RowCodes::kInt8;
      return WriteWays();
    });
  }

  // Writes other codes or another graph beside those that are there. Where that fails, for want of memory or disk, or
  // finds less, those that are there stay: they serve. CANCELLED is passed on.
  absl::Status TryOthers(absl::FunctionRef<absl::Status()> write) {
    const SegmentManifest manifest = manifest_;
    const RowCodes codes = codes_;
    const GraphSettings graph = graph_;
    const bool with_entries = with_entries_;
    const auto move_all = [this](std::string_view from, std::string_view to) {
      std::error_code ignored;
      for (const std::string_view file : kWays) {
        const std::string path = StrCat(folder_, "/", file);
        std::filesystem::rename(StrCat(path, from), StrCat(path, to), ignored);
      }
    };
    move_all("", kKept);
    const absl::Status written = write();
    if (absl::IsCancelled(written)) return written;
    if (written.ok() && Reach(manifest_.measured) >= Reach(manifest.measured)) {
      std::error_code ignored;
      for (const std::string_view file : kWays) std::filesystem::remove(StrCat(folder_, "/", file, kKept), ignored);
      return absl::OkStatus();
    }
    if (!written.ok()) {
      unmendable_ = true;
      spdlog::warn("segment {}: searches of it stay slow, because better codes or links cannot be written: {}",
                   manifest_.id, MessageOf(written));
    }
    for (const std::string_view file : kWays) Discard(file);
    move_all(kKept, "");
    manifest_ = manifest;
    codes_ = codes;
    graph_ = graph;
    with_entries_ = with_entries;
    return WriteManifest();
  }

  // The best recall that any breadth was measured to reach.
  static double Reach(std::span<const RecallAt> measured) {
    double most = 0;
    for (const RecallAt& point : measured) most = std::max(most, point.recall);
    return most;
  }

  absl::StatusOr<double> CodesFind() const {
    LC_ASSIGN_OR_RETURN(const std::shared_ptr<const Segment> segment, SealedSegment::Open(folder_, false));
    return MeasureCodes(segment, FairBreadth(plan_.settings.hnsw_ef_search), control_.stop);
  }

  // The kept graph, and codes, with entries.
  absl::Status AddEntries() {
    for (const std::string_view file : {kInt8CodesFile, kHalfCodesFile}) {
      if (manifest_.File(file) == nullptr) continue;
      const std::string path = StrCat(folder_, "/", file);
      std::error_code error;
      std::filesystem::create_hard_link(StrCat(path, kKept), path, error);
      if (!error) continue;
      std::filesystem::copy_file(StrCat(path, kKept), path, error);  // for file systems without links
      if (error) return ErrnoStatus(error.value(), "link", path);
      LC_RETURN_IF_ERROR(SyncFile(path));
    }
    LC_ASSIGN_OR_RETURN(std::string graph, ReadFile(StrCat(folder_, "/", kGraphFile, kKept), INT64_MAX));
    std::erase_if(manifest_.files, [](const FileEntry& file) { return file.name == kGraphFile; });
    with_entries_ = true;
    LC_RETURN_IF_ERROR(WriteGraph(std::move(graph)));
    LC_RETURN_IF_ERROR(WriteManifest());
    return Measure();
  }

  absl::Status WriteManifest() const {
    return WriteFileAtomically(StrCat(folder_, "/", kManifestFile), EncodeManifest(manifest_));
  }

  // Searches the files as they will be served.
  absl::Status Measure() {
    LC_ASSIGN_OR_RETURN(const std::shared_ptr<const Segment> segment, SealedSegment::Open(folder_, false));
    LC_ASSIGN_OR_RETURN(manifest_.measured, MeasureRecall(segment, control_.stop));
    return WriteManifest();
  }

  absl::Status WriteVectors() {
    FileWriter file(StrCat(folder_, "/", kVectorsFile), control_);
    LC_RETURN_IF_ERROR(file.Create());
    const size_t dimension = static_cast<size_t>(manifest_.space.dimension);
    std::vector<float> row(static_cast<size_t>(manifest_.stride), 0.0f);
    for (size_t i = 0; i < rows_.size(); ++i) {
      const RowBlock& block = sources_[rows_[i].source]->block();
      std::memcpy(row.data(), block.rows + rows_[i].row * block.stride, dimension * sizeof(float));
      LC_RETURN_IF_ERROR(file.Write(row.data(), row.size() * sizeof(float)));
    }
    return file.Finish(kVectorsFile, manifest_);
  }

  absl::Status LinkVectors() {
    const std::string path = StrCat(folder_, "/", kVectorsFile);
    std::error_code error;
    std::filesystem::create_hard_link(plan_.vectors_file, path, error);
    if (error) std::filesystem::copy_file(plan_.vectors_file, path, error);  // for file systems without links
    if (error) return ErrnoStatus(error.value(), "link", path);
    LC_RETURN_IF_ERROR(SyncFile(path));
    std::atomic<bool> damaged{false};
    LC_ASSIGN_OR_RETURN(const Mapping vectors, Mapping::OfFile(path, &damaged));
    manifest_.files.push_back({std::string(kVectorsFile), vectors.bytes(), Crc32c(vectors.view())});
    return damaged ? DataLoss(StrCat("'", path, "' cannot be read")) : absl::OkStatus();
  }

  template <typename T, typename Get>
  absl::Status WriteColumn(std::string_view name, Get get) {
    FileWriter file(StrCat(folder_, "/", name), control_);
    LC_RETURN_IF_ERROR(file.Create());
    for (const RowReference& reference : rows_) {
      const T value = get(sources_[reference.source]->block(), reference.row);
      LC_RETURN_IF_ERROR(file.Write(&value, sizeof(value)));
    }
    return file.Finish(name, manifest_);
  }

  // The mean of the rows as codes see them (codes.h), padded as the file has it.
  std::vector<float> Centre() const {
    const size_t dimension = static_cast<size_t>(manifest_.space.dimension);
    std::vector<double> sum(dimension, 0.0);
    for (const RowReference& reference : rows_) {
      const RowBlock& block = sources_[reference.source]->block();
      const double scale = block.factors[reference.row].scale;
      const float* const z = block.rows + reference.row * block.stride;
      for (size_t i = 0; i < dimension; ++i) sum[i] += scale * double{z[i]};
    }
    std::vector<float> centre(CentreBytes(manifest_.space.dimension) / sizeof(float), 0.0f);
    for (size_t i = 0; i < dimension; ++i) centre[i] = static_cast<float>(sum[i] / static_cast<double>(rows_.size()));
    return centre;
  }

  absl::Status WriteCodes(CodeKind kind) {
    FileWriter file(StrCat(folder_, "/", CodesFileOf(kind)), control_);
    LC_RETURN_IF_ERROR(file.Create());
    const size_t dimension = static_cast<size_t>(manifest_.space.dimension);
    std::vector<uint8_t> coded(CodeStride(kind, manifest_.space.dimension));
    const std::vector<float> centre = Centre();
    CodeBlock bounds;
    bounds.kind = kind;
    bounds.centre = centre.data();
    bounds.around_centre = manifest_.space.metric == Metric::kEuclidean;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const RowBlock& block = sources_[rows_[i].source]->block();
      const size_t row = rows_[i].row;
      EncodeRow(manifest_.space.metric, block.factors[row], {block.rows + row * block.stride, dimension}, coded.data(),
                &bounds);
      LC_RETURN_IF_ERROR(file.Write(coded.data(), coded.size()));
    }
    LC_RETURN_IF_ERROR(file.Write(centre.data(), centre.size() * sizeof(float)));
    const CodesFooter footer = CodesFooterOf(manifest_.space.dimension, manifest_.rows, bounds);
    LC_RETURN_IF_ERROR(file.Write(&footer, sizeof(footer)));
    return file.Finish(CodesFileOf(kind), manifest_);
  }

  RowValues Row(int64_t i) const {
    const RowReference& reference = rows_[static_cast<size_t>(i)];
    const RowBlock& block = sources_[reference.source]->block();
    return {{block.rows + reference.row * block.stride, static_cast<size_t>(manifest_.space.dimension)},
            block.factors[reference.row]};
  }

  absl::Status WriteWhole(std::string_view name, std::string_view bytes) {
    FileWriter file(StrCat(folder_, "/", name), control_);
    LC_RETURN_IF_ERROR(file.Create());
    LC_RETURN_IF_ERROR(file.Write(bytes.data(), bytes.size()));
    return file.Finish(name, manifest_);
  }

  // Puts the rows into their lists; every other file is in that order.
  absl::Status WriteLists() {
    const auto row = [this](int64_t i) { return Row(i); };
    const ListSettings settings{plan_.settings.ivf_lists, plan_.settings.build_threads, plan_.provisional};
    LC_ASSIGN_OR_RETURN(const Partition partition,
                        PartitionRows(manifest_.space, manifest_.rows, row, settings, control_.stop));
    std::vector<uint32_t> place;
    const std::string lists = EncodeLists(partition, manifest_.space.dimension, &place);
    std::vector<RowReference> by_list(rows_.size());
    for (size_t i = 0; i < place.size(); ++i) by_list[place[i]] = rows_[i];
    rows_ = std::move(by_list);
    return WriteWhole(kListsFile, lists);
  }

  absl::Status WritePq() {
    std::atomic<bool> damaged = false;
    LC_ASSIGN_OR_RETURN(const Mapping bytes, Mapping::OfFile(StrCat(folder_, "/", kListsFile), &damaged));
    LC_ASSIGN_OR_RETURN(const Lists lists, Lists::Parse(bytes.view(), manifest_.space.dimension, manifest_.rows));
    const int parts = PqParts(plan_.settings.pq_m, manifest_.space.dimension);
    if (parts == 0) return plan_.settings.ValidateFor(manifest_.space.dimension);
    const PqSettings settings{parts, plan_.settings.build_threads};
    const auto row = [this](int64_t i) { return Row(i); };
    LC_ASSIGN_OR_RETURN(const std::string codes, EncodePq(manifest_.space, lists, row, settings, control_.stop));
    if (damaged) return DataLoss(StrCat("'", folder_, "': lists could not be read while rows were coded"));
    return WriteWhole(kPqCodesFile, codes);
  }

  // Builds the graph over the written files, so that its rows are the segment's rows.
  // `links`: those of a graph that is there; else it is built.
  absl::Status WriteGraph(std::optional<std::string> links = std::nullopt) {
    std::atomic<bool> damaged{false};
    LC_ASSIGN_OR_RETURN(const Mapping vectors, Mapping::OfFile(StrCat(folder_, "/", kVectorsFile), &damaged));
    LC_ASSIGN_OR_RETURN(const Mapping factors, Mapping::OfFile(StrCat(folder_, "/", kFactorsFile), &damaged));
    const RowBlock block{vectors.as<const float>(), static_cast<size_t>(manifest_.stride),
                         factors.as<const RowFactors>(), nullptr, nullptr};
    manifest_.hnsw_m = graph_.m;
    manifest_.hnsw_ef_construction = graph_.ef_construction;
    CodeBlock codes;
    Mapping coded;
    if (const std::optional<CodeKind> kind = Coded()) {
      LC_ASSIGN_OR_RETURN(coded, Mapping::OfFile(StrCat(folder_, "/", CodesFileOf(*kind)), &damaged));
      LC_ASSIGN_OR_RETURN(codes, ParseCodes(coded.view(), *kind, manifest_.space.dimension, manifest_.rows));
    }
    const CodeBlock* const coded_rows = codes.rows != nullptr ? &codes : nullptr;
    if (!links) {
      LC_ASSIGN_OR_RETURN(links, BuildGraph(manifest_.space, block, coded_rows, manifest_.rows, graph_, control_.stop));
    }
    std::string graph = *std::move(links);
    if (with_entries_) {
      LC_ASSIGN_OR_RETURN(const std::vector<uint32_t> entries,
                          ChooseEntries(manifest_.space, block, coded_rows, manifest_.rows));
      graph = WithEntries(std::move(graph), entries);
    }
    if (damaged) return DataLoss(StrCat("'", folder_, "': files could not be read while the graph was built"));
    return WriteWhole(kGraphFile, graph);
  }

  const std::string folder_;
  const SegmentPlan& plan_;
  const std::vector<std::shared_ptr<Segment>>& sources_;
  std::vector<RowReference>& rows_;
  const BuildControl& control_;
  SegmentManifest manifest_;
  RowCodes codes_ = RowCodes::kFloat32;
  GraphSettings graph_;
  bool with_entries_ = false;
  bool unmendable_ = false;  // Others could not be written.
};

}  // namespace

std::vector<RowReference> GatherRows(const std::vector<std::shared_ptr<Segment>>& sources,
                                     const std::vector<int64_t>& rows_of) {
  std::vector<RowReference> rows;
  for (size_t s = 0; s < sources.size(); ++s) {
    for (int64_t i = 0; i < rows_of[s]; ++i) {
      if (sources[s]->states().Get(static_cast<size_t>(i)) == kDeleted) continue;
      rows.push_back({sources[s]->block().ids[i], static_cast<uint32_t>(s), static_cast<uint32_t>(i)});
    }
  }
  std::sort(rows.begin(), rows.end(),
            [](const RowReference& x, const RowReference& y) { return x.internal_id < y.internal_id; });
  return rows;
}

absl::StatusOr<std::shared_ptr<SealedSegment>> WriteSegment(const std::string& folder, const SegmentPlan& plan,
                                                            const std::vector<std::shared_ptr<Segment>>& sources,
                                                            std::vector<RowReference>& rows,
                                                            const BuildControl& control) {
  LC_DCHECK(!rows.empty());
  const std::string temporary = folder + ".tmp";
  std::error_code ignored;
  std::filesystem::remove_all(temporary, ignored);
  absl::Status status = SegmentWriter(temporary, plan, sources, rows, control).Write();
  if (status.ok() && ::rename(temporary.c_str(), folder.c_str()) != 0) status = ErrnoStatus(errno, "rename", folder);
  if (status.ok()) status = SyncFolder(std::filesystem::path(folder).parent_path().string());
  if (!status.ok()) {
    std::filesystem::remove_all(temporary, ignored);
    std::filesystem::remove_all(folder, ignored);
    return Annotate(status, "write segment");
  }
  auto written = SealedSegment::Open(folder, /*with_states=*/false);
  if (!written.ok()) {
    std::filesystem::remove_all(folder, ignored);
    return Annotate(written.status(), "write segment");
  }
  return written;
}

}  // namespace lightcone
