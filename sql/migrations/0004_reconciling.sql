-- What reconciliation found and did.

CREATE TABLE IF NOT EXISTS reconcile_run (
  run_id      CHAR(36) CHARACTER SET ascii NOT NULL PRIMARY KEY,
  caused_by   VARCHAR(16)  NOT NULL COMMENT 'sample, full, command',
  owner       VARCHAR(255) NOT NULL,
  started_at  DATETIME(3)  NOT NULL COMMENT 'UTC',
  duration_ms BIGINT       NOT NULL,
  outcome     VARCHAR(16)  NOT NULL,
  report      MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL COMMENT 'JSON, as `tallyd reconcile --json` prints it',
  mailed_at   DATETIME(3)  NULL COMMENT 'UTC; when its report was handed to the mail server',
  KEY by_start (started_at)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS reconcile_drift (
  id               BIGINT UNSIGNED   NOT NULL AUTO_INCREMENT PRIMARY KEY,
  run_id           CHAR(36) CHARACTER SET ascii NOT NULL,
  target_type      SMALLINT UNSIGNED NOT NULL,
  target_id        BIGINT            NOT NULL,
  interaction_type SMALLINT UNSIGNED NOT NULL,
  user_id          BIGINT            NULL COMMENT 'NULL where a count is concerned',
  kind             VARCHAR(32) CHARACTER SET ascii NOT NULL,
  cause            VARCHAR(64) CHARACTER SET ascii NOT NULL,
  side             VARCHAR(8) CHARACTER SET ascii NOT NULL COMMENT 'redis or mysql: where it was or would be repaired',
  before_value     VARCHAR(32) CHARACTER SET ascii NULL COMMENT 'NULL: was not there',
  after_value      VARCHAR(32) CHARACTER SET ascii NULL COMMENT 'NULL: was to go, or is not known',
  outcome          VARCHAR(16) CHARACTER SET ascii NOT NULL COMMENT 'repaired, failed, refused, left',
  found_at         DATETIME(3)       NOT NULL COMMENT 'UTC',
  KEY by_run (run_id, id),
  KEY by_time (found_at)
) ENGINE = InnoDB;
