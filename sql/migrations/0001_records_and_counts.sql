-- Who did what, and how many. Tables that exist already, also of the older layout (an auto-increment id and a unique
-- key on user_id, target_type, target_id, interaction_type), are taken as they are.

CREATE TABLE IF NOT EXISTS interaction_record (
  target_type      SMALLINT UNSIGNED NOT NULL,
  target_id        BIGINT            NOT NULL,
  interaction_type SMALLINT UNSIGNED NOT NULL,
  user_id          BIGINT            NOT NULL,
  status           TINYINT           NOT NULL COMMENT '1 active, 0 cancelled',
  create_time      DATETIME(3)       NOT NULL COMMENT 'UTC; the first time, never changed',
  update_time      DATETIME(3)       NOT NULL COMMENT 'UTC; when the user acted',
  -- Rows of a target lie together: batches, counts and warm-up are range scans.
  PRIMARY KEY (target_type, target_id, interaction_type, user_id),
  -- "What did this user like"; without update_time, which would double the cost of a flip.
  KEY by_user (user_id, interaction_type)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS interaction_count (
  target_type      SMALLINT UNSIGNED NOT NULL,
  target_id        BIGINT            NOT NULL,
  interaction_type SMALLINT UNSIGNED NOT NULL,
  count            BIGINT            NOT NULL,
  update_time      DATETIME(3)       NOT NULL COMMENT 'UTC; the newest event that changed the count',
  PRIMARY KEY (target_type, target_id, interaction_type)
) ENGINE = InnoDB;
