#include "cli/commands/snapshot_s3.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/status.h"
#include "cli/interrupt.h"
#include "cli/table.h"
#include "snapshot/s3/access.h"
#include "snapshot/s3/client.h"
#include "snapshot/s3/copy.h"
#include "snapshot/s3/prune.h"
#include "snapshot/s3/shelf.h"

namespace lightcone::cli {
namespace {

using Json = nlohmann::ordered_json;

// A bucket that is open until the command ends, or Ctrl-C asks for its end.
class OpenedBucket {
 public:
  absl::Status Open(const S3Location& location, const S3Flags& flags) {
    S3ClientOptions options;
    options.bucket = location.bucket;
    LC_ASSIGN_OR_RETURN(options.endpoint, CompleteS3Endpoint({flags.endpoint, flags.region, flags.ca_file}));
    LC_ASSIGN_OR_RETURN(options.credentials, ReadS3Credentials(flags.credentials_file));
    options.cancelled = [this] { return interrupt_.flag()->load(); };
    LC_ASSIGN_OR_RETURN(client_, S3Client::Make(std::move(options)));
    shelf_ = std::make_unique<S3Shelf>(*client_, location.prefix);
    return absl::OkStatus();
  }
  const S3Shelf& shelf() const { return *shelf_; }

 private:
  const StopOnInterrupt interrupt_;
  std::unique_ptr<S3Client> client_;
  std::unique_ptr<S3Shelf> shelf_;
};

std::function<void(uint64_t)> ShowOn(ProgressBar& bar) {
  return [&bar](uint64_t bytes) { bar.Show(0, static_cast<int64_t>(bytes)); };
}

std::string CreatedText(const SnapshotManifest& manifest) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixMicros(manifest.time_us), absl::UTCTimeZone());
}

uint64_t ItemsOf(const SnapshotManifest& manifest) {
  uint64_t items = 0;
  for (const SnapshotCollection& one : manifest.collections) items += one.items;
  return items;
}

Json ManifestJson(const std::string& name, const SnapshotManifest& manifest) {
  return {{"name", name},
          {"version", manifest.version},
          {"created", CreatedText(manifest)},
          {"sequence", manifest.sequence},
          {"files", manifest.files.size()},
          {"bytes", manifest.Bytes()},
          {"items", ItemsOf(manifest)}};
}

Table BucketTable() { return Table({"snapshot", "created", "items", "files", "size", "damage"}); }

void AddManifestRow(const std::string& name, const SnapshotManifest& manifest, Table* table) {
  table->Add({name, CreatedText(manifest), Grouped(ItemsOf(manifest)), Grouped(manifest.files.size()),
              Bytes(manifest.Bytes()), ""});
}

}  // namespace

void AddS3Access(CLI::App* app, S3Flags* flags) {
  app->add_option("--s3-endpoint", flags->endpoint,
                  "URL of the S3-compatible store, without the bucket; default: Amazon's of the region")
      ->envname("AWS_ENDPOINT_URL")
      ->type_name("URL");
  app->add_option("--s3-region", flags->region, "Region of the bucket")->envname("AWS_REGION")->capture_default_str();
  app->add_option("--s3-credentials", flags->credentials_file,
                  "File with lines access_key_id = ... and secret_access_key = ...; default: the environment's "
                  "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN")
      ->type_name("FILE");
  app->add_option("--s3-ca", flags->ca_file, "PEM file with the authorities of the store; default: the system's")
      ->envname("AWS_CA_BUNDLE")
      ->type_name("FILE");
}

void AddS3Retention(CLI::App* app, S3Flags* flags) {
  app->add_option("--keep", flags->keep, "Newest snapshots to keep")->required()->check(CLI::Range(1, 100'000));
  app->add_option("--file-age-hours-min", flags->age_hours_min,
                  "Hours that a file without a snapshot stays, so that an interrupted copy can go on")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 87'600.0));
}

absl::StatusOr<SnapshotCopy> CopyToS3(const std::string& folder, const std::string& to, const S3Flags& flags) {
  LC_ASSIGN_OR_RETURN(const S3Location location, ParseS3Url(to));
  OpenedBucket bucket;
  LC_RETURN_IF_ERROR(bucket.Open(location, flags));
  ProgressBar bar("copy", 0, "bytes");
  return CopySnapshotToS3(folder, bucket.shelf(), {.seen = ShowOn(bar)});
}

absl::Status ListInS3(Context& context, const std::string& from, const S3Flags& flags) {
  LC_ASSIGN_OR_RETURN(const S3Location location, ParseS3Url(from));
  OpenedBucket bucket;
  LC_RETURN_IF_ERROR(bucket.Open(location, flags));
  LC_ASSIGN_OR_RETURN(const std::vector<ShelvedSnapshot> all, bucket.shelf().List());
  Json json = Json::array();
  Table table = BucketTable();
  for (const ShelvedSnapshot& one : all) {
    if (one.manifest.ok()) {
      json.push_back(ManifestJson(one.name, *one.manifest));
      AddManifestRow(one.name, *one.manifest, &table);
    } else {
      const std::string damage = MessageOf(one.manifest.status());
      json.push_back({{"name", one.name}, {"damage", damage}});
      table.Add({one.name, "", "", "", "", damage});
    }
  }
  context.Show(json, table.Text());
  return absl::OkStatus();
}

absl::Status VerifyInS3(Context& context, const std::string& snapshot, const S3Flags& flags) {
  std::string name;
  LC_ASSIGN_OR_RETURN(const S3Location location, ParseS3SnapshotUrl(snapshot, &name));
  OpenedBucket bucket;
  LC_RETURN_IF_ERROR(bucket.Open(location, flags));
  ProgressBar bar("verify", 0, "bytes");
  LC_ASSIGN_OR_RETURN(const SnapshotManifest manifest, bucket.shelf().Verify(name, ShowOn(bar)));
  bar.Clear();
  Table table = BucketTable();
  AddManifestRow(name, manifest, &table);
  context.Show(ManifestJson(name, manifest), table.Text());
  return absl::OkStatus();
}

absl::Status PruneInS3(Context& context, const std::string& from, const S3Flags& flags) {
  LC_ASSIGN_OR_RETURN(const S3Location location, ParseS3Url(from));
  OpenedBucket bucket;
  LC_RETURN_IF_ERROR(bucket.Open(location, flags));
  LC_ASSIGN_OR_RETURN(const S3Pruned pruned,
                      PruneS3(bucket.shelf(), {.keep = flags.keep, .age_min = absl::Hours(flags.age_hours_min)}));
  Json json = {{"kept", pruned.kept},
               {"deleted", pruned.deleted},
               {"deleted_files", pruned.deleted_files},
               {"deleted_bytes", pruned.deleted_bytes}};
  std::string left;
  if (!pruned.uploads_left.empty()) {
    json["uploads_left"] = pruned.uploads_left;
    left = StrCat("unfinished uploads may be left: ", pruned.uploads_left, "\n");
  }
  context.Show(json,
               StrCat("kept ", pruned.kept.size(), " snapshots of ", from, "; deleted ", pruned.deleted.size(),
                      " snapshots, and ", pruned.deleted_files, " files of ", Bytes(pruned.deleted_bytes), "\n", left));
  return absl::OkStatus();
}

absl::StatusOr<SnapshotManifest> RestoreFromS3(const std::string& snapshot, const std::string& data_folder,
                                               const S3Flags& flags) {
  std::string name;
  LC_ASSIGN_OR_RETURN(const S3Location location, ParseS3SnapshotUrl(snapshot, &name));
  OpenedBucket bucket;
  LC_RETURN_IF_ERROR(bucket.Open(location, flags));
  ProgressBar bar("restore", 0, "bytes");
  return RestoreSnapshotFromS3(bucket.shelf(), name, data_folder, ShowOn(bar));
}

}  // namespace lightcone::cli
