#include "schema/schema_registry.h"

#include <SchemaRegistryFormat.pb.h>
#include <SchemaStorageFormat.pb.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "managed_ledger/testing/memory_ledger_store.h"
#include "managed_ledger/testing/memory_metadata_store.h"
#include "runtime/async.h"
#include "runtime/runtime.h"
#include "schema/key_value_schema.h"

namespace geminga {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kId = "t/n/topic";

SchemaData avro(std::string fields) {
  return {SchemaType::Avro, R"({"type":"record","name":"R","fields":[)" + fields + "]}", {}};
}
SchemaData text_schema() { return {SchemaType::String, "", {}}; }

class SchemaRegistryTest : public ::testing::Test {
 protected:
  SchemaRegistryTest()
      : runtime_({.shards = 1, .memory_limit = 1 << 20, .pin_threads = false}),
        metadata_(runtime_.shard(0)),
        ledgers_(runtime_.shard(0)),
        registry_(metadata_, ledgers_) {
    runtime_.start();
  }
  ~SchemaRegistryTest() override { runtime_.stop(); }

  template <typename F>
  auto run(F body) {
    return runtime_.run_and_wait(0, std::move(body));
  }
  Result<std::int64_t> put(SchemaData schema, SchemaPutOptions options = {}) {
    return run([&, schema, options]() -> Task<Result<std::int64_t>> {
      co_return co_await registry_.put(kId, schema, options);
    });
  }
  std::optional<StoredSchema> get(std::optional<std::int64_t> version = {}) {
    auto got = run([&]() -> Task<Result<std::optional<StoredSchema>>> {
      co_return co_await registry_.get(kId, version);
    });
    EXPECT_TRUE(got.is_ok()) << got.status().to_string();
    return got ? *got : std::nullopt;
  }
  Result<std::int64_t> remove(bool force) {
    return run(
        [&]() -> Task<Result<std::int64_t>> { co_return co_await registry_.remove(kId, force); });
  }

  Runtime runtime_;
  testing::MemoryMetadataStore metadata_;
  testing::MemoryLedgerStore ledgers_;
  SchemaRegistry registry_;
};

TEST_F(SchemaRegistryTest, TheSameSchemaHasOneVersion) {
  EXPECT_EQ(get(), std::nullopt);
  EXPECT_EQ(*put(avro("")), 0);
  EXPECT_EQ(*put(avro("")), 0);
  SchemaData spaced = avro("");
  spaced.data = R"( {"name":"R", "type":"record", "fields":[]} )";
  EXPECT_EQ(*put(spaced), 0);
  EXPECT_EQ(*put(avro(R"({"name":"a","type":"int"})")), 1);
  EXPECT_EQ(*put(avro("")), 0);
  EXPECT_EQ(get()->version, 1);
  EXPECT_EQ(get(0)->schema.data, avro("").data);
  EXPECT_EQ(get(7), std::nullopt);
  EXPECT_THAT(ledgers_.list(), SizeIs(2));
}

TEST_F(SchemaRegistryTest, PropertiesAndTypeComeBack) {
  SchemaData schema{SchemaType::KeyValue,
                    *key_value_schema_from_json(R"({"key":"","value":{"a":1}})"),
                    {{"k", "v"}}};
  ASSERT_TRUE(put(schema).is_ok());
  SchemaRegistry fresh(metadata_, ledgers_);  // nothing in its cache
  auto got = run(
      [&]() -> Task<Result<std::optional<StoredSchema>>> { co_return co_await fresh.latest(kId); });
  ASSERT_TRUE(got.is_ok() && got->has_value());
  EXPECT_EQ((*got)->schema.type, SchemaType::KeyValue);
  EXPECT_EQ((*got)->schema.properties.at("k"), "v");
  EXPECT_EQ(*key_value_schema_to_json((*got)->schema.data), R"({"key":"","value":{"a":1}})");
  EXPECT_GT((*got)->timestamp_ms, 0);
}

TEST_F(SchemaRegistryTest, StoredFormIsPulsars) {
  ASSERT_TRUE(put(avro("")).is_ok());
  auto node = run([&]() -> Task<Result<std::optional<MetadataValue>>> {
    co_return co_await metadata_.get("/schemas/t/n/topic");
  });
  pulsar::schema::storage::SchemaLocator locator;
  ASSERT_TRUE(locator.ParseFromString((*node)->value));
  EXPECT_EQ(locator.info().version(), 0);
  EXPECT_EQ(locator.info().hash(), sha256(avro("").data));
  EXPECT_EQ(locator.info().position().entryid(), 0);
  ASSERT_EQ(locator.index_size(), 1);

  auto bytes = run([&]() -> Task<Result<std::vector<LedgerEntry>>> {
    auto ledger = co_await ledgers_.open(locator.info().position().ledgerid());
    if (!ledger) co_return ledger.status();
    co_return co_await (*ledger)->read(0, 1, 1000);
  });
  pulsar::schema::storage::SchemaEntry entry;
  ASSERT_TRUE(entry.ParseFromArray(bytes->front().data.data(),
                                   static_cast<int>(bytes->front().data.size())));
  EXPECT_EQ(entry.index(0).position().ledgerid(), -1);
  pulsar::schema::info::SchemaInfo info;
  ASSERT_TRUE(info.ParseFromString(entry.schema_data()));
  EXPECT_EQ(info.schema_id(), kId);
  EXPECT_EQ(info.type(), pulsar::schema::info::SchemaInfo::AVRO);
}

TEST_F(SchemaRegistryTest, ManyAtOnceMakeOneVersionWithoutGap) {
  SchemaRegistry other(metadata_, ledgers_);  // as another broker would
  Gate gate;
  std::vector<std::int64_t> versions;
  run([&]() -> Task<void> {
    for (int i = 0; i < 40; ++i) {
      SchemaRegistry& registry = i % 2 == 0 ? registry_ : other;
      const SchemaData schema = avro(i % 4 < 2 ? "" : R"({"name":"a","type":"int"})");
      spawn(runtime_.shard(0), gate, [&registry, schema, &versions]() -> Task<void> {
        auto version = co_await registry.put(kId, schema);
        EXPECT_TRUE(version.is_ok()) << version.status().to_string();
        if (version) versions.push_back(*version);
      });
    }
    co_await gate.close();
  });
  EXPECT_THAT(versions, SizeIs(40));
  auto all = run(
      [&]() -> Task<Result<std::vector<StoredSchema>>> { co_return co_await registry_.all(kId); });
  ASSERT_THAT(*all, SizeIs(2));
  EXPECT_EQ((*all)[0].version, 0);
  EXPECT_EQ((*all)[1].version, 1);
  EXPECT_THAT(ledgers_.list(), SizeIs(2)) << "ledgers of lost races must be gone";
}

TEST_F(SchemaRegistryTest, WhatMayNotBeAddedIsRefused) {
  SchemaPutOptions closed;
  closed.may_add = false;
  EXPECT_TRUE(put(text_schema(), closed).is(ErrorCode::IncompatibleSchema));
  ASSERT_TRUE(put(text_schema()).is_ok());
  EXPECT_EQ(*put(text_schema(), closed), 0);
  const auto other_type = put({SchemaType::Int32, "", {}});
  EXPECT_EQ(other_type.status().message(),
            "Incompatible schema: exists schema type STRING, new schema type INT32");
  SchemaPutOptions any;
  any.may_change_type = true;
  EXPECT_EQ(*put({SchemaType::Int32, "", {}}, any), 1);
  EXPECT_THAT(put({SchemaType::Avro, "nonsense", {}}).status().message(),
              HasSubstr("Invalid schema definition"));
  EXPECT_TRUE(
      put({SchemaType::Json, std::string(2 << 20, ' '), {}}).is(ErrorCode::IncompatibleSchema));
}

TEST_F(SchemaRegistryTest, DeletionIsAVersionAndForceStartsAnew) {
  EXPECT_EQ(*remove(false), 0);
  EXPECT_EQ(get(), std::nullopt);
  EXPECT_EQ(*put(text_schema()), 1);
  EXPECT_EQ(*remove(false), 2);
  EXPECT_EQ(get(), std::nullopt);
  EXPECT_EQ(get(1), std::nullopt) << "what was before a deletion is gone";
  EXPECT_EQ(*put({SchemaType::Int32, "", {}}), 3) << "after a deletion another type is welcome";
  EXPECT_EQ(*put(text_schema(), {.may_change_type = true}), 4)
      << "what was before a deletion does not count";
  EXPECT_EQ(get(1), std::nullopt);
  EXPECT_EQ(get(3)->schema.type, SchemaType::Int32);
  EXPECT_EQ(*remove(true), -1);
  EXPECT_THAT(ledgers_.list(), SizeIs(0));
  EXPECT_EQ(*put(text_schema()), 0);
  EXPECT_EQ(*remove(true), -1);
  EXPECT_EQ(*remove(true), -1);
}

TEST_F(SchemaRegistryTest, AFailedRegistrationLeavesNothing) {
  metadata_.faults().decide = [](const std::string& op,
                                 const std::string&) -> std::optional<testing::Fault> {
    if (op != "put") return std::nullopt;
    return testing::Fault{Status::Io("no"), false};
  };
  EXPECT_TRUE(put(text_schema()).is(ErrorCode::Io));
  EXPECT_THAT(ledgers_.list(), SizeIs(0));
  metadata_.faults().heal();
  ledgers_.set_writable(false);
  EXPECT_TRUE(put(text_schema()).is(ErrorCode::DiskFull));
  EXPECT_THAT(ledgers_.list(), SizeIs(0));
}

TEST(SchemaVersion, IsEightBytesBigEndian) {
  EXPECT_EQ(encode_schema_version(258), std::string("\0\0\0\0\0\0\x01\x02", 8));
  EXPECT_EQ(decode_schema_version(encode_schema_version(-1)), -1);
  EXPECT_EQ(decode_schema_version("1234567"), std::nullopt);
}

TEST(SchemaTypes, NamesAndNumbers) {
  EXPECT_EQ(stored_schema_type(SchemaType::KeyValue), 16);
  EXPECT_EQ(schema_type_from_stored(21), SchemaType::ProtobufNative);
  EXPECT_EQ(schema_type_from_stored(22), std::nullopt);
  EXPECT_EQ(schema_type_from_wire(22), std::nullopt);
  EXPECT_EQ(parse_schema_type("KEY_VALUE"), SchemaType::KeyValue);
  EXPECT_EQ(parse_schema_type("BYTES"), SchemaType::None);
  EXPECT_EQ(parse_schema_type("WHAT"), std::nullopt);
}

TEST(KeyValueSchema, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(key_value_schema_to_json("abc").is_ok());
  EXPECT_FALSE(key_value_schema_to_json(std::string("\0\0\0\x09xx", 6)).is_ok());
  EXPECT_EQ(*key_value_schema_to_json(std::string("\xff\xff\xff\xff\0\0\0\0", 8)),
            R"({"key":"","value":""})");
  EXPECT_FALSE(key_value_schema_from_json("[]").is_ok());
}

}  // namespace
}  // namespace geminga
