//! Devices that learn beside the first one.

use std::sync::Arc;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::nn::{self, Module};
use crate::optim::{Layout, LossScaleOptions, LossScaler};
use crate::parallel::{Exchange, Other};
use crate::runtime::{Forecast, Hyper, RandomState, random_state, seed, set_random_state};
use crate::train::config::Config;

use super::{Learner, model};

/// The other devices, with their copies of the model.
pub(super) struct Others {
    models: Vec<Arc<dyn Module>>,
    pub(super) exchange: Exchange,
}

impl Learner {
    /// Makes the steps of a learner that learns with other devices.
    pub(super) fn learn_with(&mut self, others: &[Device], config: &Config) -> Result<()> {
        if self.formats[0].mixes_on_device() {
            let message = "augment-on is device, where pictures of a batch are mixed with each other, but several devices have \
                           parts of it: use augment-on host";
            return Err(Error::Config(message.into()));
        }
        let data = self.formats[0].description.clone();
        let shares: Vec<Hyper> = (0..=others.len()).map(|_| Hyper::new(1.0)).collect();
        let scale = |scaler: &Option<Arc<LossScaler>>| {
            scaler.iter().map(|scaler| scaler.scale_variable().clone()).collect::<Vec<_>>()
        };
        let (mut models, mut computing) = (Vec::new(), Vec::new());
        for ((number, device), share) in (1..).zip(others).zip(&shares[1..]) {
            // other numbers than the first one's
            seed(device, u64::from(config.seed) + (number << 32))?;
            let copy = model(config, &data, device)?;
            let layouts = Layout::beside("copies", &self.optimizer.layouts(), copy.as_ref())?;
            let scaler = self.scaler.as_ref().map(|_| LossScaler::new(device, LossScaleOptions::default()));
            let scaler = scaler.transpose()?.map(Arc::new);
            let followers = scale(&scaler);
            let part = self.part(copy.clone(), self.question.on(device)?, scaler, share.clone());
            computing.push(Other::new(device, layouts, &followers, part)?);
            models.push(copy);
        }
        let update = self.update_step()?;
        self.train = self.part_step(shares[0].clone())?.halting_with(&update);
        let (layouts, followed) = (self.optimizer.layouts(), scale(&self.scaler));
        let exchange = Exchange::new(computing, update, shares, &layouts, &followed, self.values_of_part());
        self.others = Some(Others { models, exchange });
        self.copy_to_others()
    }

    /// Gives the other devices what does not change in training: parameters that are frozen, and statistics.
    pub(super) fn copy_to_others(&self) -> Result<()> {
        let Some(others) = &self.others else { return Ok(()) };
        let state = nn::state(self.model.as_ref());
        others.models.iter().try_for_each(|copy| nn::load_state(copy.as_ref(), &state))
    }

    /// What training with these numbers of rows takes of the memory of the other devices.
    pub(in crate::train) fn forecasts_of_others(&mut self, rows: &[usize]) -> Result<Vec<(Device, Forecast)>> {
        let Self { others: Some(others), formats: [format, _], .. } = self else { return Ok(Vec::new()) };
        let forecasts = others.exchange.forecasts(rows, &|rows| format.signature(rows))?;
        Ok(others.exchange.others().cloned().zip(forecasts).collect())
    }

    /// Where the random numbers of the other devices stand.
    pub(in crate::train) fn random_states_of_others(&self) -> Result<Vec<RandomState>> {
        let others = self.others.iter().flat_map(|others| others.exchange.others());
        others.map(random_state).collect()
    }

    /// Sets them; of devices that there were not when they were noted, they begin anew.
    pub(in crate::train) fn set_random_states_of_others(&self, states: &[RandomState]) -> Result<()> {
        let others = self.others.iter().flat_map(|others| others.exchange.others());
        others.zip(states).try_for_each(|(device, &state)| set_random_state(device, state))
    }
}
