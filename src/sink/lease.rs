//! Leases: who may work on a partition, by MySQL's clock.

use sqlx::{Executor, Row};

use super::SinkError;
use super::session::{Conn, Session};
use crate::model::{Checkpoint, Partition};

/// How long a lease holds without renewal; it is renewed every third of it.
pub const LEASE_SECONDS: u32 = 15;

/// A lease that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The partition.
    pub partition: Partition,
    /// One greater than that of the last owner.
    pub token: u64,
    /// MySQL's checkpoint when the lease was taken.
    pub checkpoint: Checkpoint,
}

/// The outcome of an attempt to take a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is the caller's.
    Yes(Lease),
    /// It is somebody else's.
    No {
        /// Who holds it.
        owner: String,
    },
}

impl Session {
    /// Takes the lease of a partition if it is free or has run out.
    pub async fn take_lease(&mut self, partition: Partition, owner: &str) -> Result<Taken, SinkError> {
        let owner = owner.to_owned();
        self.with(move |conn| Box::pin(async move { conn.take_lease(partition, &owner).await })).await
    }

    /// The greatest token given out so far; 0 before the first.
    pub async fn lease_token(&mut self, partition: Partition) -> Result<u64, SinkError> {
        let text =
            "/* tallyd lease.token */ SELECT lease_token FROM sync_partition WHERE target_type = ? AND shard = ?";
        self.with(move |conn| {
            Box::pin(async move {
                let select = sqlx::query(text).bind(partition.target_type).bind(partition.shard);
                let row = conn.mysql.fetch_optional(select).await;
                let token = row.and_then(|row| row.map(|row| row.try_get(0)).transpose()).map_err(conn.failed())?;
                Ok(token.unwrap_or_default())
            })
        })
        .await
    }

    /// Makes a lease hold for another while. [`SinkError::LeaseLost`] when it is somebody else's by now.
    pub async fn renew_lease(&mut self, lease: Lease) -> Result<(), SinkError> {
        let text = "/* tallyd lease.renew */ UPDATE sync_partition \
                    SET lease_until = UTC_TIMESTAMP(3) + INTERVAL ? SECOND \
                    WHERE target_type = ? AND shard = ? AND lease_token = ?";
        self.with(move |conn| {
            Box::pin(async move {
                let update = sqlx::query(text).bind(LEASE_SECONDS).bind(lease.partition.target_type);
                let update = update.bind(lease.partition.shard).bind(lease.token);
                let failed = conn.failed();
                let matched = conn.mysql.execute(update).await.map_err(failed)?.rows_affected();
                if matched == 0 { Err(SinkError::LeaseLost) } else { Ok(()) }
            })
        })
        .await
    }

    /// Gives a lease back whose token was never used, and takes the token back: MySQL is older than Redis, and would
    /// overtake it by refusing often enough.
    pub async fn unissue_lease(&mut self, lease: Lease) -> Result<(), SinkError> {
        let text = "/* tallyd lease.unissue */ UPDATE sync_partition \
                    SET lease_until = NULL, lease_owner = NULL, lease_token = lease_token - 1 \
                    WHERE target_type = ? AND shard = ? AND lease_token = ?";
        self.end_lease(text, lease).await
    }

    /// Gives a lease back, unless it is somebody else's by now.
    pub async fn release_lease(&mut self, lease: Lease) -> Result<(), SinkError> {
        let text = "/* tallyd lease.release */ UPDATE sync_partition SET lease_until = NULL, lease_owner = NULL \
                    WHERE target_type = ? AND shard = ? AND lease_token = ?";
        self.end_lease(text, lease).await
    }

    async fn end_lease(&mut self, text: &'static str, lease: Lease) -> Result<(), SinkError> {
        self.with(move |conn| {
            Box::pin(async move {
                let update = sqlx::query(text).bind(lease.partition.target_type).bind(lease.partition.shard);
                let failed = conn.failed();
                conn.mysql.execute(update.bind(lease.token)).await.map_err(failed)?;
                Ok(())
            })
        })
        .await
    }
}

impl Conn {
    async fn take_lease(&mut self, partition: Partition, owner: &str) -> Result<Taken, SinkError> {
        let failed = self.failed();
        let Partition { target_type, shard } = partition;
        let take = "/* tallyd lease.take */ UPDATE sync_partition SET lease_token = lease_token + 1, lease_owner = ?, \
                    lease_until = UTC_TIMESTAMP(3) + INTERVAL ? SECOND \
                    WHERE target_type = ? AND shard = ? AND (lease_until IS NULL OR lease_until <= UTC_TIMESTAMP(3))";
        // A locking read: it waits for a commit of the last owner that is under way, and sees it.
        let look = "/* tallyd lease.take */ SELECT lease_token, checkpoint, COALESCE(lease_owner, '') \
                    FROM sync_partition WHERE target_type = ? AND shard = ? FOR UPDATE";
        let make = "/* tallyd lease.take */ INSERT IGNORE INTO sync_partition (target_type, shard) VALUES (?, ?)";
        loop {
            self.mysql.execute("/* tallyd lease.take */ START TRANSACTION").await.map_err(&failed)?;
            let update = sqlx::query(take).bind(owner).bind(LEASE_SECONDS).bind(target_type).bind(shard);
            let ours = self.mysql.execute(update).await.map_err(&failed)?.rows_affected() == 1;
            let row =
                self.mysql.fetch_optional(sqlx::query(look).bind(target_type).bind(shard)).await.map_err(&failed)?;
            if row.is_none() {
                self.mysql.execute(sqlx::query(make).bind(target_type).bind(shard)).await.map_err(&failed)?;
            }
            self.mysql.execute("/* tallyd lease.take */ COMMIT").await.map_err(&failed)?;
            let Some(row) = row else { continue };
            if !ours {
                return Ok(Taken::No { owner: row.try_get(2).map_err(&failed)? });
            }
            let text: String = row.try_get(1).map_err(&failed)?;
            let checkpoint = text
                .parse()
                .map_err(|error| SinkError::Internal(format!("sync_partition.checkpoint of {partition}: {error}")))?;
            let token = row.try_get(0).map_err(&failed)?;
            return Ok(Taken::Yes(Lease { partition, token, checkpoint }));
        }
    }
}
