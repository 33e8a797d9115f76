-- Which count rows may know of changes that the record rows do not have yet: each was copied from Redis while the
-- target had further changes there. If Redis loses those, the restore counts the record rows again.

CREATE TABLE IF NOT EXISTS unsettled_count (
  target_type      SMALLINT UNSIGNED NOT NULL,
  target_id        BIGINT            NOT NULL,
  interaction_type SMALLINT UNSIGNED NOT NULL,
  shard            SMALLINT UNSIGNED NOT NULL,
  PRIMARY KEY (target_type, target_id, interaction_type),
  KEY by_partition (target_type, shard)
) ENGINE = InnoDB;
