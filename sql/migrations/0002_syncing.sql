-- What tallyd needs to know of its own work.

CREATE TABLE IF NOT EXISTS tallyd_meta (
  name  VARCHAR(64) CHARACTER SET ascii NOT NULL PRIMARY KEY,
  value VARCHAR(255)                    NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS sync_partition (
  target_type   SMALLINT UNSIGNED NOT NULL,
  shard         SMALLINT UNSIGNED NOT NULL,
  checkpoint    VARCHAR(48) CHARACTER SET ascii NOT NULL DEFAULT '0.0' COMMENT '<lease token>.<step>, as ckpt in Redis',
  last_event_ms BIGINT            NOT NULL DEFAULT 0 COMMENT 'greatest event time committed, Unix ms',
  lease_token   BIGINT UNSIGNED   NOT NULL DEFAULT 0 COMMENT 'one greater at every change of owner',
  lease_owner   VARCHAR(255)      NULL,
  lease_until   DATETIME(3)       NULL COMMENT 'UTC, by the clock of this server',
  PRIMARY KEY (target_type, shard)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS sync_run (
  run_id      CHAR(36) CHARACTER SET ascii NOT NULL PRIMARY KEY,
  caused_by   VARCHAR(16)  NOT NULL COMMENT 'schedule, backlog, start, command',
  owner       VARCHAR(255) NOT NULL,
  started_at  DATETIME(3)  NOT NULL COMMENT 'UTC',
  duration_ms BIGINT       NOT NULL,
  outcome     VARCHAR(16)  NOT NULL,
  retries     BIGINT       NOT NULL,
  report      MEDIUMTEXT   NOT NULL COMMENT 'JSON, as `tallyd sync --json` prints it',
  KEY by_start (started_at)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS sync_rejected (
  id          BIGINT UNSIGNED   NOT NULL AUTO_INCREMENT PRIMARY KEY,
  target_type SMALLINT UNSIGNED NOT NULL,
  mark        VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'as Redis held it',
  reason      VARCHAR(32) CHARACTER SET ascii NOT NULL,
  detail      TEXT CHARACTER SET utf8mb4 NOT NULL,
  run_id      CHAR(36) CHARACTER SET ascii NOT NULL COMMENT 'the last run that met it',
  first_seen  DATETIME(3)       NOT NULL COMMENT 'UTC',
  last_seen   DATETIME(3)       NOT NULL COMMENT 'UTC',
  -- Meeting it twice leaves one row.
  UNIQUE KEY by_mark (target_type, mark(160), reason),
  KEY by_last_seen (last_seen)
) ENGINE = InnoDB;

-- The journal of writes that went to MySQL while Redis was down, until they are replayed.
CREATE TABLE IF NOT EXISTS degraded_write (
  id               BIGINT UNSIGNED   NOT NULL AUTO_INCREMENT PRIMARY KEY,
  target_type      SMALLINT UNSIGNED NOT NULL,
  shard            SMALLINT UNSIGNED NOT NULL,
  target_id        BIGINT            NOT NULL,
  interaction_type SMALLINT UNSIGNED NOT NULL,
  user_id          BIGINT            NOT NULL,
  status           TINYINT           NOT NULL,
  event_ms         BIGINT            NOT NULL COMMENT 'Unix ms',
  KEY by_partition (target_type, shard, id),
  KEY by_state (target_type, target_id, interaction_type, user_id)
) ENGINE = InnoDB;
