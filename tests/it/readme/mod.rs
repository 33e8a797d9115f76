//! The README held to the truth: the commands in its `console` blocks are run as they stand there, and what they print is
//! compared with what it says they print.

mod adding;
mod blocks;
mod installing;
mod moving;
mod restored;
mod stage;
mod tour;

use blocks::{Step, alike, steps};
use stage::Stage;
